import { alignedBuffer } from '../../base/aligned-buffer.ts';
import { pieceBytes } from '../../engine/changes/known-hashes.ts';

/** Enough to read, hash and send, or to receive, hash and write, at the same time. */
const count = 8;

/** The memory of one round. A slow end runs out of buffers, and so slows the other one down. */
export class Buffers {
  readonly #free: Uint8Array<ArrayBuffer>[];
  readonly #waiting: ((buffer: Uint8Array<ArrayBuffer>) => void)[] = [];

  constructor() {
    const memory = alignedBuffer(count * pieceBytes);
    this.#free = Array.from({ length: count }, (_, index) =>
      memory.subarray(index * pieceBytes, (index + 1) * pieceBytes),
    );
  }

  /** In the order of the calls. */
  async take(): Promise<Uint8Array<ArrayBuffer>> {
    const free = this.#free.pop();
    if (free) return free;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  giveBack(buffer: Uint8Array<ArrayBuffer>): void {
    const next = this.#waiting.shift();
    if (next) next(buffer);
    else this.#free.push(buffer);
  }
}
