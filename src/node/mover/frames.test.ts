import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { decodeHeader, encodeHeader, type Header, headerBytes, maxZeroBytes } from './frames.ts';

const offset = fc.nat({ max: 2 ** 50 });

test('a header arrives as it was sent', () => {
  const header: fc.Arbitrary<Header> = fc.oneof(
    fc.record({
      kind: fc.constant('data' as const),
      offset,
      length: fc.nat({ max: 1024 ** 2 }),
      hash: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    }),
    fc.record({ kind: fc.constant('zero' as const), offset, length: fc.nat({ max: maxZeroBytes }) }),
    fc.record({ kind: fc.constant('message' as const), offset, length: fc.nat({ max: 65_536 }) }),
  );
  fc.assert(
    fc.property(header, (sent) => {
      const { hash, ...rest } = decodeHeader(encodeHeader(sent));
      assert.deepEqual(rest, { kind: sent.kind, offset: sent.offset, length: sent.length });
      assert.deepEqual(hash && [...hash], sent.hash && [...sent.hash]);
    }),
  );
});

test('a header of anything else is refused, or within limits', () => {
  const bytes = fc.uint8Array({ minLength: headerBytes, maxLength: headerBytes });
  fc.assert(
    fc.property(bytes, fc.constantFrom(0, 1, 2, 3, 4, 255), (random, kind) => {
      random[0] = kind;
      try {
        const { length, offset } = decodeHeader(random);
        assert.ok(length <= maxZeroBytes && Number.isSafeInteger(offset + length));
      } catch (error) {
        assert.equal((error as Error).name, 'InvalidInput');
      }
    }),
  );
});
