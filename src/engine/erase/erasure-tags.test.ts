import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { ErasePolicy } from '../config/device-classes.ts';
import { checkTags, emptyingTag, erasingTag } from '../names-and-tags.ts';
import { emptiedTags, erasureIn, markedTags, policyOnRemoval, progressedTags } from './erasure-tags.ts';

const policy = fc.oneof(
  fc.constantFrom<ErasePolicy>({ kind: 'none' }, { kind: 'discard' }, { kind: 'zero' }),
  fc.integer({ min: 1, max: 100 }).map((passes): ErasePolicy => ({ kind: 'shred', passes })),
);

test('policy and progress are read back from the tags', () => {
  fc.assert(
    fc.property(policy, fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (policy, cleanBytes) => {
      for (const [mark, isKept] of [
        [erasingTag, false],
        [emptyingTag, true],
      ] as const) {
        const tags = progressedTags(markedTags(['claim=a'], policy, mark), cleanBytes);
        checkTags(tags); // LVM accepts them
        assert.deepEqual(erasureIn(tags), { policy, cleanBytes, isKept });
      }
    }),
  );
  const marked = markedTags([], { kind: 'zero' });
  assert.deepEqual(erasureIn(marked), { policy: { kind: 'zero' }, cleanBytes: 0n, isKept: false });
});

test('a volume that was not removed is not erased, whatever its other tags are', () => {
  assert.equal(erasureIn(['moorage.dev/created', 'moorage.dev/erased=5', 'moorage.dev/erase=zero']), undefined);
});

test('an unreadable mark means the strictest policy, from the start', () => {
  for (const tags of [[], ['moorage.dev/erase=burn', 'moorage.dev/erased=-1'], ['moorage.dev/erase=shred:x']]) {
    const policy = { kind: 'shred', passes: 3 };
    assert.deepEqual(erasureIn([erasingTag, ...tags]), { policy, cleanBytes: 0n, isKept: false });
  }
});

test('a mark replaces what an earlier erasure left, and progress replaces earlier progress; other tags stay', () => {
  const left = progressedTags(markedTags(['claim=a', 'moorage.dev/created'], { kind: 'shred', passes: 2 }), 5n);
  const marked = markedTags(left, { kind: 'zero' });
  assert.deepEqual(marked, ['claim=a', 'moorage.dev/created', erasingTag, 'moorage.dev/erase=zero']);
  const progressed = progressedTags(progressedTags(marked, 1n), 2n);
  assert.deepEqual(progressed, [...marked, 'moorage.dev/erased=2']);
});

test('an emptied volume has the tags of a new volume of the same owner', () => {
  const owner = ['moorage.dev/local-pv=pv-1', 'moorage.dev/local-pv-uid=1'];
  const kept = ['admins-own', ...owner, 'moorage.dev/on-removal=zero'];
  const used = ['moorage.dev/adopted', 'moorage.dev/filesystem=ext4', 'moorage.dev/encrypted=luks2', 'moorage.dev/raw'];
  const marked = progressedTags(markedTags([...kept, ...used], { kind: 'zero' }, emptyingTag), 5n);
  assert.deepEqual(emptiedTags(marked), [...kept, 'moorage.dev/created', 'moorage.dev/unused']);
  const withoutOwner = markedTags(['moorage.dev/created'], { kind: 'zero' }, emptyingTag);
  assert.deepEqual(emptiedTags(withoutOwner), ['moorage.dev/created'], 'nobody would record its use');
});

test("a volume's own policy comes before that of its class", () => {
  const none = { kind: 'none' } as const;
  const zero = { kind: 'zero' } as const;
  const own = (text: string) => policyOnRemoval(['a', `moorage.dev/on-removal=${text}`], zero);
  assert.deepEqual(policyOnRemoval(['a', 'moorage.dev/erase=none'], zero), zero);
  assert.deepEqual(policyOnRemoval([], none), none);
  assert.deepEqual([own('none'), own('discard'), own('default')], [none, { kind: 'discard' }, zero]);
  assert.deepEqual(
    [own('shred'), own('shred:7')],
    [3, 7].map((passes) => ({ kind: 'shred', passes })),
  );
  assert.deepEqual(own('burn'), { kind: 'shred', passes: 3 });
});
