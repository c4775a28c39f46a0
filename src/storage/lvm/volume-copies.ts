import { constants, open } from 'node:fs/promises';
import { messageOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { VolumeId } from '../pool.ts';

const pieceBytes = 4 * 1024 ** 2;

/** Reads all of one device into another, which has at least its size; on return it is on the disk. */
export type CopyDevice = (from: string, to: string, signal: AbortSignal) => Promise<void>;

export const copyDevice: CopyDevice = async (from, to, signal) => {
  await using source = await open(from, 'r');
  await using target = await open(to, constants.O_WRONLY | constants.O_EXCL); // nobody may use it meanwhile
  const piece = Buffer.alloc(pieceBytes);
  for (let position = 0; ; ) {
    signal.throwIfAborted();
    const { bytesRead } = await source.read(piece, 0, pieceBytes, position);
    if (bytesRead === 0) break;
    for (let written = 0; written < bytesRead; ) {
      const { bytesWritten } = await target.write(piece, written, bytesRead - written, position + written);
      written += bytesWritten;
    }
    position += bytesRead;
  }
  await target.sync();
};

/** Two at once let a small one pass a large one. Each piece holds one of the threads that all file work shares. */
const atOnce = 2;

/** A copy under way; whoever waits for it may leave. */
export interface Copy {
  readonly source: VolumeId;
  /** Resolves when all is copied; rejects if it cannot be. */
  readonly whole: Promise<void>;
}

/**
 * The volumes of one pool that are being filled with what another one holds. A copy takes longer than most callers have,
 * so it goes on without them, and a repeated call joins it. After a crash it begins anew.
 */
export class VolumeCopies {
  readonly #log: Log;
  readonly #copies = new Map<VolumeId, Copy>();
  readonly #abort = new AbortController();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  get(id: VolumeId): Copy | undefined {
    return this.#copies.get(id);
  }

  /** The volume that is being filled with what this one holds, if any is. */
  readerOf(source: VolumeId): VolumeId | undefined {
    return [...this.#copies].find(([, copy]) => copy.source === source)?.[0];
  }

  begin(id: VolumeId, source: VolumeId, copy: (signal: AbortSignal) => Promise<void>): void {
    const whole = this.#inTurn(() => copy(this.#abort.signal)).finally(() => this.#copies.delete(id));
    this.#copies.set(id, { source, whole });
    whole.catch((error: unknown) => {
      this.#log.error({ err: error, volume: id }, `volume ${id} could not be copied: ${messageOf(error)}`);
    });
  }

  /** What is not whole by then is made anew when it is asked for again. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await Promise.allSettled([...this.#copies.values()].map(({ whole }) => whole));
  }

  async #inTurn(copy: () => Promise<void>): Promise<void> {
    if (this.#running >= atOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      await copy();
    } finally {
      const next = this.#waiting.shift(); // takes our place
      if (next) next();
      else this.#running -= 1;
    }
  }
}
