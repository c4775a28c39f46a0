import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type BlockKind, BlockMap } from './block-map.ts';

const unit = 4096;
const units = 1000;
const size = units * unit;

type Mark = { readonly kind: BlockKind; readonly offset: number; readonly length: number };
const mark: fc.Arbitrary<Mark> = fc.record({
  kind: fc.constantFrom('data' as const, 'zero' as const),
  offset: fc.nat(units - 1),
  length: fc.integer({ min: 1, max: 200 }),
});

/** What a copy of a volume has in each unit after a round: the new data, or zeros, or what it had before. */
function copied(before: readonly string[], now: readonly string[], map: BlockMap): string[] {
  const copy = [...before];
  for (const { kind, offset, length } of map.runs()) {
    for (let at = offset / unit; at < (offset + length) / unit; at++)
      copy[at] = kind === 'zero' ? 'zero' : (now[at] ?? '');
  }
  return copy;
}

function changed(content: readonly string[], marks: readonly Mark[], round: string) {
  const [now, map] = [[...content], new BlockMap(size)];
  for (const { kind, offset, length } of marks) {
    for (let at = offset; at < Math.min(offset + length, units); at++) {
      // What is data in this round stays data: a difference of two states has no overlaps.
      if (kind === 'data' || !now[at]?.startsWith(round)) now[at] = kind === 'data' ? `${round}-${at}` : 'zero';
    }
  }
  for (const [at, is] of now.entries()) {
    if (is !== content[at]) map.mark(is === 'zero' ? 'zero' : 'data', at * unit, unit);
  }
  return { now, map };
}

test('a copy is the same as the volume after any changes, in one round and in two together', () => {
  fc.assert(
    fc.property(fc.array(mark), fc.array(mark), (first, second) => {
      const start = Array.from({ length: units }, (_, at) => `start-${at}`);
      const one = changed(start, first, 'one');
      const two = changed(one.now, second, 'two');
      assert.deepEqual(copied(start, one.now, one.map), one.now);
      assert.deepEqual(copied(one.now, two.now, two.map), two.now);
      one.map.add(two.map);
      assert.deepEqual(copied(start, two.now, one.map), two.now);
    }),
  );
});

test('runs are in order, apart, and within the volume', () => {
  fc.assert(
    fc.property(fc.array(mark), fc.nat(units), (marks, from) => {
      const map = new BlockMap(size);
      for (const { kind, offset, length } of marks) map.mark(kind, offset * unit, length * unit);
      const runs = [...map.runs()];
      let end = 0;
      for (const run of runs) {
        assert.ok(run.offset >= end && run.length > 0);
        end = run.offset + run.length;
      }
      assert.ok(end <= size);
      assert.equal(
        map.changedBytes,
        runs.reduce((sum, { length }) => sum + length, 0),
      );
      const start = Math.floor((from * unit) / map.chunkBytes) * map.chunkBytes;
      const later = [...map.runs(from * unit)];
      const cut = runs.flatMap(({ kind, offset, length }) => {
        const begin = Math.max(offset, start);
        return begin < offset + length ? [{ kind, offset: begin, length: offset + length - begin }] : [];
      });
      assert.deepEqual(later, cut);
    }),
  );
});

test('the map of a volume of any size takes 16 MiB at most', () => {
  assert.equal(new BlockMap(2n ** 40n).states.byteLength, 16 * 2 ** 20);
  assert.equal(new BlockMap(2n ** 40n).chunkBytes, 64 * 1024);
  assert.ok(new BlockMap(100n * 2n ** 40n).states.byteLength <= 16 * 2 ** 20);
});

test('a map is the same in another thread', () => {
  const map = new BlockMap(size);
  map.mark('data', 5 * 65_536, 1);
  map.mark('zero', 10 * 65_536, 3 * 65_536);
  assert.deepEqual([...new BlockMap(size, structuredClone(map.states)).runs()], [...map.runs()]);
});
