import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import * as fc from 'fast-check';
import { InvalidInput } from '../../base/errors.ts';
import { ext4 } from '../../filesystem/ext4.ts';
import { xfs } from '../../filesystem/xfs.ts';
import { CapacityRangeSchema } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { VolumeUse } from '../volume-use.ts';
import { grownSize, volumeSize } from './create.ts';

const gibi = 1024n ** 3n;
const mebi = 1024n ** 2n;
const onExt4: VolumeUse = { kind: 'filesystem', filesystem: ext4, mountFlags: [] };
const block: VolumeUse = { kind: 'block' };

function size(requiredBytes: bigint, limitBytes: bigint, use: VolumeUse = onExt4): bigint {
  return volumeSize(create(CapacityRangeSchema, { requiredBytes, limitBytes }), use);
}

test('a volume without a requested size has one GiB', () => {
  assert.equal(volumeSize(undefined, onExt4), gibi);
  assert.equal(size(0n, 0n), gibi);
  assert.equal(size(0n, 5n * gibi), gibi);
});

test('a volume with only a small limit is as large as the limit', () => {
  assert.equal(size(0n, 100n * mebi + 1n), 100n * mebi);
});

test('a requested size is rounded up to whole pages', () => {
  assert.equal(size(gibi + 1n, 0n), gibi + 4096n);
});

test('a small request gives the smallest volume that its use allows', () => {
  assert.equal(size(1n, 0n), 32n * mebi);
  assert.equal(size(1n, 0n, { ...onExt4, filesystem: xfs }), 300n * mebi);
  assert.equal(size(1n, 0n, block), 8n * mebi);
});

test('a copy has the size of its source unless another size is requested', () => {
  const range = (requiredBytes: bigint, limitBytes: bigint) =>
    create(CapacityRangeSchema, { requiredBytes, limitBytes });
  assert.equal(volumeSize(undefined, onExt4, 5n * gibi), 5n * gibi);
  assert.equal(volumeSize(range(6n * gibi, 0n), onExt4, 5n * gibi), 6n * gibi);
  assert.equal(volumeSize(range(gibi, 0n), onExt4, 5n * gibi), gibi, 'too small; the node refuses it');
});

test('a volume grows to whole pages, and within the limit', () => {
  const grown = (requiredBytes: bigint, limitBytes = 0n) =>
    grownSize(create(CapacityRangeSchema, { requiredBytes, limitBytes }));
  assert.equal(grown(gibi - 1n), gibi);
  assert.equal(grown(1n), 4096n, 'the current size does not matter here');
  assert.throws(() => grown(0n, gibi), /required_bytes is missing/);
  assert.throws(() => grown(gibi, gibi - 1n), /limit_bytes allows 1023\.\d+ MiB, the volume needs 1 GiB/);
  assert.throws(() => grown(-1n), /required_bytes is negative/);
});

test('an impossible limit is refused', () => {
  assert.throws(() => size(gibi + 1n, gibi + 1n), InvalidInput, 'rounding exceeds it');
  assert.throws(() => size(1n, mebi), /limit_bytes allows 1 MiB, the volume needs 32 MiB/);
  assert.throws(() => size(0n, 1n), /limit_bytes allows 1 B/);
});

test('negative sizes are refused with the name of their field', () => {
  assert.throws(() => size(-1n, 0n), /required_bytes is negative/);
  assert.throws(() => size(0n, -1n), /limit_bytes is negative/);
});

test('every computed size is within the range and a multiple of the page size', () => {
  const bytes = fc.bigInt({ min: 0n, max: 2n ** 50n });
  fc.assert(
    fc.property(bytes, bytes, (requiredBytes, limitBytes) => {
      let given: bigint;
      try {
        given = size(requiredBytes, limitBytes);
      } catch (error) {
        assert.ok(error instanceof InvalidInput);
        assert.ok(limitBytes > 0n, 'only a limit can make a range impossible');
        return;
      }
      assert.ok(given >= requiredBytes && given % 4096n === 0n && given > 0n);
      assert.ok(limitBytes === 0n || given <= limitBytes);
    }),
  );
});
