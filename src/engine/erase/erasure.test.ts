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

test('what was promised, and how far it has come, is read back from the tags', () => {
  fc.assert(
    fc.property(policy, fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (policy, cleanBytes) => {
      const tags = ['claim=a', ...erasureTags(policy), progressTag(cleanBytes)];
      checkTags(tags); // LVM takes them
      assert.deepEqual(erasureIn(tags), { policy, cleanBytes });
    }),
  );
  assert.deepEqual(erasureIn(erasureTags({ kind: 'zero' })), { policy: { kind: 'zero' }, cleanBytes: 0n });
});

test('a volume that nobody has removed is not erased, whatever else its tags say', () => {
  assert.equal(erasureIn(['moorage.dev/created', progressTag(5n), 'moorage.dev/erase=zero']), undefined);
});

test('a mark that cannot be understood is taken for the strictest, from the beginning', () => {
  for (const tags of [[], ['moorage.dev/erase=burn', 'moorage.dev/erased=-1'], ['moorage.dev/erase=shred:x']]) {
    assert.deepEqual(erasureIn([erasingTag, ...tags]), { policy: { kind: 'shred', passes: 3 }, cleanBytes: 0n });
  }
});

test('progress is told apart from the rest', () => {
  assert.ok(isProgressTag(progressTag(1n)));
  assert.ok(!erasureTags({ kind: 'zero' }).some(isProgressTag));
  assert.ok([...erasureTags({ kind: 'zero' }), progressTag(1n)].every(isErasureTag));
  assert.ok(!isErasureTag('moorage.dev/created'));
});
