import { isDeepStrictEqual } from 'node:util';
import type { Run } from '../../base/exec.ts';
import type { BlockMap } from '../changes/block-map.ts';
import { NoCheckpoints } from '../changes/checkpoint-tracking.ts';

const unitBytes = 512;
const timeoutMs = 10 * 60_000;

/** Where the filesystem has the data of a file: an address, or one of these. */
const zero = -1;
const unknown = -2;

/** Flags of an extent whose address says nothing about its data. */
const withoutAddress = /unknown|delalloc|encoded|encrypted|inline|tail|not_aligned/;

/** The extents of a file in ascending order. What is between them is a hole. Numbers, as there can be millions. */
export class FileExtents {
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #places: number[] = [];
  #rest = '';
  #isComplete = false;

  /** Node has no call for this. Data that is not yet on the disk is written there first. */
  static async of(path: string, run: Run, signal: AbortSignal): Promise<FileExtents> {
    const extents = new FileExtents();
    const onStdout = (piece: Buffer) => extents.push(piece);
    await run(['filefrag', '-s', '-v', `-b${unitBytes}`, path], { timeoutMs, signal, onStdout });
    if (extents.#isComplete) return extents;
    throw new NoCheckpoints('the output of filefrag is incomplete or has an unknown format');
  }

  /** A piece of filefrag's output. */
  push(piece: Buffer): void {
    const lines = (this.#rest + piece.toString('latin1')).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const [, start, end, place, flags] =
        /^\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*\d+:\s*\d+:\s*(?:\d+:)?\s*(\S*)$/.exec(line) ?? [];
      if (start !== undefined) this.#add(Number(start), Number(end) + 1, Number(place), flags ?? '');
      else if (/ extents? found$/.test(line)) this.#isComplete = true;
    }
  }

  /** In filesystems that relocate data, addresses can change while they are read. */
  equals(other: FileExtents): boolean {
    return (
      isDeepStrictEqual(this.#starts, other.#starts) &&
      isDeepStrictEqual(this.#ends, other.#ends) &&
      isDeepStrictEqual(this.#places, other.#places)
    );
  }

  /** Marks everything that is not known to be zero. */
  markData(blocks: BlockMap): void {
    for (const [index, place] of this.#places.entries()) {
      const [start = 0, end = 0] = [this.#starts[index], this.#ends[index]];
      if (place !== zero) blocks.mark('data', start * unitBytes, (end - start) * unitBytes);
    }
  }

  /** Marks what has another address in a later copy of the same file. */
  markDifferences(later: FileExtents, blocks: BlockMap): void {
    const size = Math.ceil(blocks.sizeBytes / unitBytes);
    const [before, after] = [this.#reader(size), later.#reader(size)];
    for (let at = 0; at < size; ) {
      const [was, is] = [before(at), after(at)];
      const end = Math.min(was.end, is.end);
      const isSame = was.place === is.place && is.place !== unknown;
      if (!isSame) blocks.mark(is.place === zero ? 'zero' : 'data', at * unitBytes, (end - at) * unitBytes);
      at = end;
    }
  }

  #add(start: number, end: number, address: number, flags: string): void {
    this.#starts.push(start);
    this.#ends.push(end);
    this.#places.push(withoutAddress.test(flags) ? unknown : flags.includes('unwritten') ? zero : address);
  }

  /** Where the file has its data at ascending positions, and up to where that is true. */
  #reader(size: number): (at: number) => { readonly place: number; readonly end: number } {
    let index = 0;
    return (at) => {
      while ((this.#ends[index] ?? size) <= at) index++;
      const [start = size, end = size, place = zero] = [this.#starts[index], this.#ends[index], this.#places[index]];
      if (at < start) return { place: zero, end: Math.min(start, size) };
      return { place: place < 0 ? place : place + at - start, end: Math.min(end, size) };
    };
  }
}
