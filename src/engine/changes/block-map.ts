/** Fine enough for random writes; larger for volumes above 1 TiB, so that a map takes 16 MiB at most. */
const minChunkBytes = 64 * 1024;
const maxChunks = 16 * 1024 ** 2;

/** What a round has to do with a range of a volume: copy its data, or make it read as zeros. */
export type BlockKind = 'data' | 'zero';

export interface BlockRun {
  readonly kind: BlockKind;
  readonly offset: number;
  readonly length: number;
}

const unchanged = 0;
const states: Readonly<Record<BlockKind, number>> = { zero: 1, data: 2 };

/** Which chunks of a volume changed. A list of ranges would take hundreds of megabytes after random writes. */
export class BlockMap {
  readonly sizeBytes: number;
  readonly chunkBytes: number;
  /** One byte for each chunk. */
  readonly #states: Uint8Array<ArrayBuffer>;

  constructor(sizeBytes: bigint | number, states?: ArrayBuffer) {
    this.sizeBytes = Number(sizeBytes);
    this.chunkBytes = chunkBytesFor(this.sizeBytes);
    this.#states = new Uint8Array(states ?? new ArrayBuffer(Math.ceil(this.sizeBytes / this.chunkBytes)));
  }

  /** A map with everything in it. */
  static all(sizeBytes: bigint | number, kind: BlockKind): BlockMap {
    const map = new BlockMap(sizeBytes);
    map.#states.fill(states[kind]);
    return map;
  }

  /** For another thread: `new BlockMap(sizeBytes, states)`. */
  get states(): ArrayBuffer {
    return this.#states.buffer;
  }

  get changedBytes(): number {
    let bytes = 0;
    for (const { length } of this.runs()) bytes += length;
    return bytes;
  }

  /** What is beyond the end of the volume is left out. A chunk that is zero only in part counts as data. */
  mark(kind: BlockKind, offset: number, length: number): void {
    const end = Math.min(offset + length, this.sizeBytes);
    if (offset >= end) return;
    const [first, last] = [Math.floor(offset / this.chunkBytes), Math.ceil(end / this.chunkBytes)];
    if (kind === 'data') return void this.#states.fill(states.data, first, last);
    const wholeFrom = Math.ceil(offset / this.chunkBytes);
    const wholeTo = end === this.sizeBytes ? last : Math.floor(end / this.chunkBytes);
    if (first < wholeFrom) this.#states[first] = states.data;
    if (wholeTo < last) this.#states[last - 1] = states.data;
    for (let chunk = wholeFrom; chunk < wholeTo; chunk++) {
      if (this.#states[chunk] === unchanged) this.#states[chunk] = states.zero;
    }
  }

  /** Adds the changes of the same volume since then; what changed again is as it is now. */
  add(later: BlockMap): void {
    for (const { kind, offset, length } of later.runs()) {
      const [first, last] = [offset / this.chunkBytes, Math.ceil((offset + length) / this.chunkBytes)];
      this.#states.fill(states[kind], first, last);
    }
  }

  /** The changed ranges in ascending order, from the chunk with this offset on. */
  *runs(fromOffset = 0): Generator<BlockRun> {
    const count = this.#states.length;
    const next = { zero: -1, data: -1 };
    for (let chunk = Math.floor(fromOffset / this.chunkBytes); chunk < count; ) {
      for (const kind of ['zero', 'data'] as const) {
        if (next[kind] >= chunk) continue;
        const found = this.#states.indexOf(states[kind], chunk);
        next[kind] = found < 0 ? count : found;
      }
      const kind = next.zero < next.data ? 'zero' : 'data';
      const first = next[kind];
      if (first === count) return;
      let end = first + 1;
      while (this.#states[end] === states[kind]) end++;
      const offset = first * this.chunkBytes;
      yield { kind, offset, length: Math.min(end * this.chunkBytes, this.sizeBytes) - offset };
      chunk = end;
    }
  }
}

function chunkBytesFor(sizeBytes: number): number {
  let chunkBytes = minChunkBytes;
  while (Math.ceil(sizeBytes / chunkBytes) > maxChunks) chunkBytes *= 2;
  return chunkBytes;
}
