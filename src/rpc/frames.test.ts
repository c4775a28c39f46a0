import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { FrameReader, frameOf } from './frames.ts';

test('messages come out as they went in, however their bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array()), fc.infiniteStream(fc.integer({ min: 1, max: 20 })), (messages, cuts) => {
      const reader = new FrameReader(100);
      const received: Uint8Array[] = [];
      for (let bytes = Buffer.concat(messages.map(frameOf)); bytes.length > 0; ) {
        const size = cuts.next().value;
        received.push(...reader.push(bytes.subarray(0, size)));
        bytes = bytes.subarray(size);
      }
      assert.deepEqual(
        received.map((message) => [...message]),
        messages.map((message) => [...message]),
      );
      assert.ok(reader.complete);
    }),
  );
});

test('a message that is too long is refused by its prefix', () => {
  assert.throws(() => new FrameReader(9).push(frameOf(Buffer.alloc(10)).subarray(0, 5)), {
    code: 'ResourceExhausted',
    message: /10 bytes is longer than the 9/,
  });
});

test('a compressed message is refused, not misread', () => {
  assert.throws(() => new FrameReader(9).push(Buffer.from([1, 0, 0, 0, 0])), { code: 'Unimplemented' });
});

test('a stream that ends within a message is not complete', () => {
  const reader = new FrameReader(9);
  reader.push(frameOf(Buffer.alloc(3)).subarray(0, 6));
  assert.equal(reader.complete, false);
});
