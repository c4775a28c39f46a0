import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Run } from '../../base/exec.ts';
import { BlockMap } from '../changes/block-map.ts';
import { FileExtents } from './file-extents.ts';

const chunk = 65_536;
const perChunk = chunk / 512;
const chunks = 40;
const signal = new AbortController().signal;

/** What the filesystem has for each chunk of a file. */
type State = { readonly address: number; readonly flags?: string } | 'hole' | 'unwritten';

/** As filefrag prints it. */
function printed(states: readonly State[]): string {
  const lines = states.flatMap((state, index) => {
    if (state === 'hole') return [];
    const { address, flags = '' } = state === 'unwritten' ? { address: 9000 + index, flags: 'unwritten' } : state;
    const [from, to] = [index * perChunk, address * perChunk];
    const expected = index % 3 === 0 ? `${to + 7}:` : '';
    return `${index}: ${from}.. ${from + perChunk - 1}: ${to}.. ${to + perChunk - 1}: ${perChunk}: ${expected} ${flags}`;
  });
  return `Filesystem type is: 58465342\nFile size of x is 1\n ext: logical_offset:\n${lines.join('\n')}\nx: 3 extents found\n`;
}

async function extentsOf(output: string): Promise<FileExtents> {
  const run: Run = async (_, { onStdout }) => {
    for (let at = 0; at < output.length; at += 100) onStdout?.(Buffer.from(output.slice(at, at + 100)));
    return { stdout: '', stderr: '' };
  };
  return FileExtents.of('x', run, signal);
}

const state = fc.oneof(
  fc.constantFrom('hole' as const, 'unwritten' as const),
  fc.record({ address: fc.nat(3) }),
  fc.record({
    address: fc.nat(3),
    flags: fc.constantFrom('shared', 'last,shared,eof', 'unknown', 'encoded,shared', 'delalloc'),
  }),
);
const states = fc.array(state, { minLength: chunks, maxLength: chunks });

const isZero = (is: State) => is === 'hole' || is === 'unwritten';
const isUnsure = (is: State) => typeof is === 'object' && /unknown|encoded|delalloc/.test(is.flags ?? '');

test('what has the same address is unchanged; holes and unwritten extents are zero; all else changed', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, async (before, after) => {
      const map = new BlockMap(chunks * chunk);
      (await extentsOf(printed(before))).markDifferences(await extentsOf(printed(after)), map);
      const found = new Map(
        [...map.runs()].flatMap(({ kind, offset, length }) =>
          Array.from({ length: length / chunk }, (_, index) => [offset / chunk + index, kind] as const),
        ),
      );
      for (const [index, is] of after.entries()) {
        const was = before[index] ?? 'hole';
        const sameAddress = typeof is === 'object' && typeof was === 'object' && is.address === was.address;
        const isSame = isZero(is) ? isZero(was) : sameAddress && !isUnsure(is) && !isUnsure(was);
        assert.equal(found.get(index), isSame ? undefined : isZero(is) ? 'zero' : 'data', `chunk ${index}`);
      }
      const contents = BlockMap.all(chunks * chunk, 'zero');
      (await extentsOf(printed(after))).markData(contents);
      const expected = new BlockMap(chunks * chunk);
      for (const [index, is] of after.entries()) expected.mark(isZero(is) ? 'zero' : 'data', index * chunk, chunk);
      assert.deepEqual([...contents.runs()], [...expected.runs()]);
    }),
  );
});

test('addresses that changed while they were read are noticed', async () => {
  const before = await extentsOf(printed([{ address: 1 }, 'hole']));
  assert.ok(before.equals(await extentsOf(printed([{ address: 1 }, 'hole']))));
  assert.ok(!before.equals(await extentsOf(printed([{ address: 2 }, 'hole']))));
  assert.ok(!before.equals(await extentsOf(printed([{ address: 1 }, { address: 2 }]))));
});

test('an output that is cut off is refused', async () => {
  await assert.rejects(extentsOf(printed(['hole']).slice(0, -5)), { name: 'NoCheckpoints' });
});
