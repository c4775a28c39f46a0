import { constants, open } from 'node:fs/promises';
import { abortable } from '../base/abortable.ts';
import { codeOf, type ErrorCode, MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { formatBytes } from '../base/quantity.ts';
import type { VolumeId } from './pool.ts';

const pieceBytes = 4 * 1024 ** 2;
const zeros = Buffer.alloc(pieceBytes);

export interface CopyOptions {
  readonly signal: AbortSignal;
  /** The target already reads as zeros, so zeros of the source need not be written. */
  readonly isZeroed?: boolean;
  /** Called after each piece with the bytes copied so far; if it throws, the copy ends. */
  readonly onCopied: (copiedBytes: bigint) => void | Promise<void>;
}

/** Copies one device or file into another of at least its size; on return the data is on the disk. */
export type CopyDevice = (from: string, to: string, options: CopyOptions) => Promise<void>;

export const copyDevice: CopyDevice = async (from, to, { signal, isZeroed = false, onCopied }) => {
  await using source = await open(from, 'r');
  await using target = await open(to, constants.O_WRONLY | constants.O_EXCL); // nobody else may use the device
  const piece = Buffer.alloc(pieceBytes);
  for (let position = 0; ; ) {
    signal.throwIfAborted();
    const { bytesRead } = await source.read(piece, 0, pieceBytes, position);
    if (bytesRead === 0) break;
    const isThere = isZeroed && zeros.compare(piece, 0, bytesRead, 0, bytesRead) === 0;
    for (let written = isThere ? bytesRead : 0; written < bytesRead; ) {
      const { bytesWritten } = await target.write(piece, written, bytesRead - written, position + written);
      written += bytesWritten;
    }
    position += bytesRead;
    await onCopied(BigInt(position));
  }
  await target.sync();
};

/** Two at once let a small copy pass a large one. Each piece holds one of the threads that all file I/O shares. */
const atOnce = 2;
/** Each is a log line. */
const reportsPerCopy = 10n;

export interface NewCopy {
  readonly id: VolumeId;
  readonly source: VolumeId;
  readonly sizeBytes: bigint;
}

/** A running copy. It goes on when its callers leave. */
export interface Copy extends NewCopy {
  readonly copiedBytes: bigint;
  /** Resolves when the copy is complete; rejects if it fails. */
  readonly whole: Promise<void>;
}

interface Entry extends Copy {
  copiedBytes: bigint;
  reportedBytes: bigint;
  readonly abort: AbortController;
}

/**
 * The volumes of one pool that are being filled from another. A copy takes longer than most callers wait, so it goes on
 * without them, and a retried call joins it. After a crash it starts again.
 */
export class VolumeCopies {
  readonly #log: Log;
  readonly #copies = new Map<VolumeId, Entry>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  get(id: VolumeId): Copy | undefined {
    return this.#copies.get(id);
  }

  /** The volume that is being filled from this one, if any. */
  readerOf(source: VolumeId): VolumeId | undefined {
    return this.#copies.values().find((copy) => copy.source === source)?.id;
  }

  begin(copy: NewCopy, work: (options: CopyOptions) => Promise<void>): void {
    const { id } = copy;
    const abort = new AbortController();
    const { promise: whole, resolve, reject } = Promise.withResolvers<void>();
    const entry: Entry = { ...copy, copiedBytes: 0n, reportedBytes: 0n, abort, whole };
    this.#copies.set(id, entry);
    whole.catch((error: unknown) => {
      this.#log.error({ err: error, volume: id }, `cannot copy into volume ${id}: ${messageOf(error)}`);
    });
    const options = { signal: abort.signal, onCopied: (copiedBytes: bigint) => this.#report(entry, copiedBytes) };
    void this.#inTurn(() => work(options), abort.signal)
      .finally(() => this.#copies.delete(id))
      .then(resolve, reject);
  }

  /** Waits until the copy is complete; a caller that leaves early gets its progress. */
  async join(copy: Copy, signal: AbortSignal): Promise<void> {
    try {
      await abortable(copy.whole, signal);
    } catch (error) {
      throw signal.aborted ? new CopyInProgress(copy, signal.reason) : error;
    }
  }

  /** Returns whether there was one. */
  async cancel(id: VolumeId): Promise<boolean> {
    const copy = this.#copies.get(id);
    copy?.abort.abort(new CopyCancelled(id));
    await copy?.whole.catch(() => undefined); // only wait for its end
    return copy !== undefined;
  }

  /** An incomplete copy starts again when it is next requested. */
  async stop(): Promise<void> {
    await Promise.all([...this.#copies.keys()].map((id) => this.cancel(id)));
  }

  #report(entry: Entry, copiedBytes: bigint): void {
    const { id, source, sizeBytes, reportedBytes } = entry;
    entry.copiedBytes = copiedBytes;
    if (copiedBytes - reportedBytes < sizeBytes / reportsPerCopy) return;
    entry.reportedBytes = copiedBytes;
    const progress = `${formatBytes(copiedBytes)} of ${formatBytes(sizeBytes)}`;
    this.#log.info({ volume: id, source }, `copying volume ${source} into ${id}: ${progress}`);
  }

  async #inTurn(copy: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const hasTurn = await this.#turn(signal);
    try {
      await copy();
    } finally {
      const next = hasTurn ? this.#waiting.shift() : undefined; // passes the turn on
      if (next) next();
      else if (hasTurn) this.#running -= 1;
    }
  }

  /** False for a copy that is cancelled while it waits: it only has to clean up. */
  async #turn(signal: AbortSignal): Promise<boolean> {
    if (this.#running < atOnce) {
      this.#running += 1;
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const take = () => resolve(true);
    this.#waiting.push(take);
    signal.addEventListener('abort', () => {
      const at = this.#waiting.indexOf(take);
      if (at < 0) return; // it already has its turn
      this.#waiting.splice(at, 1);
      resolve(false);
    });
    return promise;
  }
}

/** The caller left before the end; the copy goes on. */
export class CopyInProgress extends MoorageError {
  readonly code: ErrorCode;

  constructor({ id, source, copiedBytes, sizeBytes }: Copy, reason: unknown) {
    super(
      `volume ${source} is being copied into ${id}, ${formatBytes(copiedBytes)} of ${formatBytes(sizeBytes)} so far; ` +
        'retry the request to wait for the rest',
      { cause: reason },
    );
    this.code = codeOf(reason) === 'DeadlineExceeded' ? 'DeadlineExceeded' : 'Cancelled';
  }
}

export class CopyCancelled extends MoorageError {
  readonly code = 'Aborted';

  constructor(id: VolumeId) {
    super(`the copy into volume ${id} was cancelled before it was complete; retry the request to start it again`);
  }
}
