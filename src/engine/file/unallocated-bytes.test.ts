import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { unallocatedBytes } from './directory-space.ts';

const file = (family: string, sizeBytes: bigint, takenBytes = sizeBytes) => ({ family, sizeBytes, takenBytes });

test('a fully allocated volume needs no more space', () => {
  assert.equal(unallocatedBytes([file('a', 10n), file('b', 20n, 21n)]), 0n); // slightly more, for filesystem metadata
});

test('holes count as space that may still be needed', () => {
  assert.equal(unallocatedBytes([file('a', 10n, 4n)]), 6n);
});

test('a copy and its original may come to differ in every block', () => {
  assert.equal(unallocatedBytes([file('a', 10n), file('a', 15n)]), 10n);
  assert.equal(unallocatedBytes([file('a', 10n), file('a', 10n), file('a', 10n)]), 20n);
});

test('the result covers all that shared blocks may still need', () => {
  const blocks = 16;
  const members = fc.array(fc.uniqueArray(fc.nat(blocks - 1)), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(members, (members) => {
      // Each member maps each of its blocks to a block on the disk, or to none; the same number is the same block.
      const onDisk = BigInt(new Set(members.flat()).size);
      const files = members.map((mapped) => file('a', BigInt(blocks), BigInt(mapped.length)));
      const worst = BigInt(blocks * members.length) - onDisk;
      assert.ok(unallocatedBytes(files) >= worst);
    }),
  );
});
