import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { BlockMap } from '../changes/block-map.ts';
import { readExceptions, StoreOverflowed } from './exception-store.ts';

const chunkBytes = 65_536;
const perArea = chunkBytes / 16;

/** A store as the kernel writes it: each changed chunk of the origin gets the next free chunk of the store. */
function storeOf(changed: readonly number[], header: Partial<{ magic: number; valid: number; version: number }> = {}) {
  const { magic = 0x70416e53, valid = 1, version = 1 } = header;
  const areas = Math.floor(changed.length / perArea) + 1;
  const store = Buffer.alloc((1 + areas * (perArea + 1)) * 16 + chunkBytes);
  for (const [index, word] of [magic, valid, version, chunkBytes / 512].entries()) store.writeUInt32LE(word, index * 4);
  const tables = Array.from({ length: areas }, () => Buffer.alloc(chunkBytes));
  for (const [index, chunk] of changed.entries()) {
    const table = tables[Math.floor(index / perArea)];
    table?.writeBigUInt64LE(BigInt(chunk), (index % perArea) * 16);
    table?.writeBigUInt64LE(BigInt(2 + index), (index % perArea) * 16 + 8);
  }
  return async (position: number, length: number) => {
    if (position === 0) return store.subarray(0, length);
    const area = (position / chunkBytes - 1) / (perArea + 1);
    assert.ok(Number.isInteger(area), `no area begins at ${position}`);
    return tables[area] ?? Buffer.alloc(length);
  };
}

const changedChunks = (map: BlockMap) =>
  [...map.runs()].flatMap(({ offset, length }) =>
    Array.from({ length: length / chunkBytes }, (_, index) => offset / chunkBytes + index),
  );

test('every exception is a changed chunk, across areas', async () => {
  const chunks = fc.uniqueArray(fc.nat(20_000), { maxLength: 200 });
  await fc.assert(
    fc.asyncProperty(chunks, fc.constantFrom(0, perArea - 1, perArea, perArea + 1), async (random, more) => {
      const changed = [...new Set([...random, ...Array.from({ length: more }, (_, index) => 30_000 + index)])];
      const map = new BlockMap(40_000 * chunkBytes);
      await readExceptions(storeOf(changed), map);
      assert.deepEqual(
        changedChunks(map),
        changed.toSorted((a, b) => a - b),
      );
    }),
    { numRuns: 30 },
  );
});

test('an overflowed store and one of another format are refused', async () => {
  const map = new BlockMap(chunkBytes);
  await assert.rejects(readExceptions(storeOf([], { valid: 0 }), map), StoreOverflowed);
  await assert.rejects(readExceptions(storeOf([], { version: 2 }), map), { name: 'NoCheckpoints' });
  await assert.rejects(readExceptions(storeOf([], { magic: 1 }), map), { name: 'NoCheckpoints' });
});
