import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatIoLimits, ioLimitsIn, parseIoLimits } from './io-limits.ts';

test('limits are parsed as quantities by name', () => {
  const given = { 'moorage.dev/read-bytes-per-second': '100Mi', 'moorage.dev/write-operations-per-second': '500' };
  assert.deepEqual(parseIoLimits(given, 'mutable_parameters'), {
    readBytesPerSecond: 100n * 1024n ** 2n,
    writeOperationsPerSecond: 500n,
  });
  assert.deepEqual(parseIoLimits({}, 'mutable_parameters'), {}, 'nothing is limited');
});

for (const [name, value, message] of [
  ['moorage.dev/read-bytes', '1', /^unknown name "moorage.dev\/read-bytes" in mutable_parameters; use one of/],
  ['moorage.dev/read-bytes-per-second', 'fast', /^mutable_parameters moorage.dev\/read-bytes-per-second is "fast"; w/],
  ['moorage.dev/read-bytes-per-second', '0', /is 0; set it above zero, or leave it out/],
  ['moorage.dev/read-bytes-per-second', '-1', /is -1; set it above zero/],
] as const) {
  test(`${name}: ${value} is refused`, () => {
    assert.throws(() => parseIoLimits({ [name]: value }, 'mutable_parameters'), { code: 'InvalidArgument', message });
  });
}

test('limits stored among other annotations are read back unchanged', () => {
  const limit = fc.bigInt({ min: 1n, max: 2n ** 62n });
  const limits = fc.record({ readBytesPerSecond: limit, writeOperationsPerSecond: limit }, { requiredKeys: [] });
  fc.assert(
    fc.property(limits, (wanted) => {
      const kept = { ...formatIoLimits(wanted), 'moorage.dev/claim': 'shop/db' };
      assert.deepEqual(ioLimitsIn(kept, 'annotations'), { ...wanted });
    }),
  );
});
