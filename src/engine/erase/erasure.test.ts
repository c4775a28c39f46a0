import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { ErasePolicy } from '../config/device-classes.ts';
import { erasingTag } from '../tags.ts';
import { checkTags } from '../volume-id.ts';
import { erasureIn, erasureTags, isErasureTag, isProgressTag, progressTag } from './erasure.ts';

const policy = fc.oneof(
  fc.constantFrom<ErasePolicy>({ kind: 'none' }, { kind: 'discard' }, { kind: 'zero' }),
  fc.integer({ min: 1, max: 100 }).map((passes): ErasePolicy => ({ kind: 'shred', passes })),
);

test('policy and progress are read back from the tags', () => {
  fc.assert(
    fc.property(policy, fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (policy, cleanBytes) => {
      const tags = ['claim=a', ...erasureTags(policy), progressTag(cleanBytes)];
      checkTags(tags); // LVM accepts them
      assert.deepEqual(erasureIn(tags), { policy, cleanBytes });
    }),
  );
  assert.deepEqual(erasureIn(erasureTags({ kind: 'zero' })), { policy: { kind: 'zero' }, cleanBytes: 0n });
});

test('a volume that was not removed is not erased, whatever its other tags are', () => {
  assert.equal(erasureIn(['moorage.dev/created', progressTag(5n), 'moorage.dev/erase=zero']), undefined);
});

test('an unreadable mark means the strictest policy, from the start', () => {
  for (const tags of [[], ['moorage.dev/erase=burn', 'moorage.dev/erased=-1'], ['moorage.dev/erase=shred:x']]) {
    assert.deepEqual(erasureIn([erasingTag, ...tags]), { policy: { kind: 'shred', passes: 3 }, cleanBytes: 0n });
  }
});

test('progress tags are distinguished from other tags', () => {
  assert.ok(isProgressTag(progressTag(1n)));
  assert.ok(!erasureTags({ kind: 'zero' }).some(isProgressTag));
  assert.ok([...erasureTags({ kind: 'zero' }), progressTag(1n)].every(isErasureTag));
  assert.ok(!isErasureTag('moorage.dev/created'));
});
