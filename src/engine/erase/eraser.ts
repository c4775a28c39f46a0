import { randomFill } from 'node:crypto';
import { constants, type FileHandle, open } from 'node:fs/promises';
import type { Run } from '../../base/exec.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { luksHeaderBytes } from '../luks-device.ts';
import { overwritesIn } from './erase-policy.ts';

/** The bytes to destroy. A target that is mounted or has another device on top is refused. */
export interface ErasureTarget {
  /** A thick volume is overwritten in place; erasing a thin volume or a file must not allocate more space. */
  readonly kind: 'thick' | 'thin' | 'file';
  readonly path: string;
  readonly sizeBytes: bigint;
  /** The target is used again afterwards: it must read as zeros, and a file keeps its space. */
  readonly isKept?: boolean;
  /** Whether it starts with a LUKS header in blocks of its own. Without the keys in there, nobody can read the rest. */
  readonly hasHeader?: () => boolean;
  /** Throws ErasureCancelled unless the path still leads to the volume that was marked, and it is still marked. */
  readonly mustBeSame: (signal: AbortSignal) => Promise<void>;
}

/** Only the opened device or file is erased, even if another one has its name by now. */
interface OpenTarget extends ErasureTarget {
  /** Makes the changes survive a power loss: blkdiscard and fallocate leave them in caches of the disk or filesystem. */
  flush(): Promise<void>;
}

/** Called after each stretch: the target is clean, on the disk, up to this offset. */
export type OnClean = (cleanBytes: bigint) => Promise<void>;

const pieceBytes = 1024 * 1024;
/** Small enough to lose little when interrupted, large enough for few flushes. */
const overwrittenAtOnce = 64n * 1024n ** 2n;
const zeroedAtOnce = 256n * 1024n ** 2n;
const discardedAtOnce = 4n * 1024n ** 3n;
const commandTimeoutMs = 600_000; // a slow disk writes zeros at 20 MB/s

/**
 * Destroys data from a given offset to the end, one stretch after the other. Each stretch gets all its passes and is on
 * the disk before the next one starts, so the progress is a single offset. One piece is written at a time.
 *
 * A name can pass to another volume at any time. So the target is opened first, checked before each stretch, and only
 * changed through the open file, which the kernel keeps.
 *
 * A thin volume or a file has no blocks where nothing was written, and writing would allocate them. So pieces that read
 * as zeros are skipped, and each clean stretch is returned to the pool: overwriting blocks that a file shares with a
 * copy, which the copy keeps, never takes more space than one stretch.
 */
export class Eraser {
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
  }

  async erase(
    named: ErasureTarget,
    policy: ErasePolicy,
    fromBytes: bigint,
    onClean: OnClean,
    signal: AbortSignal,
  ): Promise<void> {
    await named.mustBeSame(signal); // before open, which would fail with ENOENT for a removed volume
    await using opened = await open(named.path, 'r');
    const target = { ...named, path: `/proc/${process.pid}/fd/${opened.fd}`, flush: () => opened.sync() };
    if (target.hasHeader?.() && !overwritesIn(policy)) await this.#destroyKeys(target, signal);
    const keepsSpace = target.kind === 'file' && target.isKept;
    const whenClean = keepsSpace ? this.#allocating(target, fromBytes, onClean, signal) : onClean;
    await this.#destroy(target, policy, fromBytes, whenClean, signal);
  }

  async #destroyKeys(target: OpenTarget, signal: AbortSignal): Promise<void> {
    await target.mustBeSame(signal);
    const length = target.sizeBytes < luksHeaderBytes ? target.sizeBytes : luksHeaderBytes;
    await overwrite(target, { at: 0n, length, randomPasses: 0, isSparse: target.kind !== 'thick' }, signal);
  }

  async #destroy(
    target: OpenTarget,
    policy: ErasePolicy,
    fromBytes: bigint,
    onClean: OnClean,
    signal: AbortSignal,
  ): Promise<void> {
    switch (policy.kind) {
      case 'none':
        return;
      case 'discard':
        return ranges(target, fromBytes, discardedAtOnce, onClean, signal, async (at, length) => {
          await this.#giveBack(target, at, length, signal);
          if (target.isKept) await overwrite(target, { at, length, randomPasses: 0, isSparse: true }, signal); // discards promise no zeros
        });
      case 'zero':
        return target.kind === 'thick'
          ? this.#zeroOut(target, fromBytes, onClean, signal)
          : this.#overwrite(target, 0, fromBytes, onClean, signal);
      case 'shred':
        return this.#overwrite(target, policy.passes, fromBytes, onClean, signal);
    }
  }

  /** The kernel writes the zeros, or lets the disk do it where possible. */
  async #zeroOut(target: OpenTarget, fromBytes: bigint, onClean: OnClean, signal: AbortSignal): Promise<void> {
    await ranges(target, fromBytes, zeroedAtOnce, onClean, signal, async (at, length) => {
      await this.#blkdiscard(['--zeroout'], target, at, length, signal);
    });
  }

  /** The given number of passes with random bytes, then one with zeros. */
  async #overwrite(
    target: OpenTarget,
    randomPasses: number,
    fromBytes: bigint,
    onClean: OnClean,
    signal: AbortSignal,
  ): Promise<void> {
    const isSparse = target.kind !== 'thick';
    await ranges(target, fromBytes, overwrittenAtOnce, onClean, signal, async (at, length) => {
      const hasWritten = await overwrite(target, { at, length, randomPasses, isSparse }, signal);
      if (isSparse && hasWritten) await this.#giveBack(target, at, length, signal);
    });
  }

  /** Fills the holes of a file before its range counts as clean, so that nobody else takes its space. */
  #allocating(target: OpenTarget, fromBytes: bigint, onClean: OnClean, signal: AbortSignal): OnClean {
    let allocatedBytes = fromBytes;
    return async (cleanBytes) => {
      const range = ['--offset', String(allocatedBytes), '--length', String(cleanBytes - allocatedBytes)];
      await this.#run(['fallocate', ...range, target.path], { timeoutMs: commandTimeoutMs, signal });
      allocatedBytes = cleanBytes;
      await onClean(cleanBytes);
    };
  }

  async #giveBack(target: OpenTarget, at: bigint, length: bigint, signal: AbortSignal): Promise<void> {
    if (target.kind !== 'file') return this.#blkdiscard([], target, at, length, signal);
    const range = ['--offset', String(at), '--length', String(length)];
    await this.#run(['fallocate', '--punch-hole', ...range, target.path], { timeoutMs: commandTimeoutMs, signal });
    await target.flush();
  }

  async #blkdiscard(
    options: readonly string[],
    target: OpenTarget,
    at: bigint,
    length: bigint,
    signal: AbortSignal,
  ): Promise<void> {
    const range = ['--offset', String(at), '--length', String(length)];
    await this.#run(['blkdiscard', ...options, ...range, target.path], { timeoutMs: commandTimeoutMs, signal });
    await target.flush();
  }
}

interface Overwriting {
  readonly at: bigint;
  readonly length: bigint;
  readonly randomPasses: number;
  /** Pieces that read as zeros are left as they are. */
  readonly isSparse: boolean;
}

/** Returns whether anything was written. */
async function overwrite(
  { path }: OpenTarget,
  { at, length, randomPasses, isSparse }: Overwriting,
  signal: AbortSignal,
): Promise<boolean> {
  const piece = new Uint8Array(pieceBytes);
  const zeros = new Uint8Array(pieceBytes);
  const pieces = piecesOf(at, length);
  await using file = await open(path, constants.O_RDWR | constants.O_EXCL); // closed at the end, as blkdiscard needs that
  const written = isSparse ? await holdingData(file, pieces, { piece, zeros }, signal) : pieces;
  for (let pass = 0; pass <= randomPasses && written.length > 0; pass++) {
    for (const { at, bytes } of written) {
      signal.throwIfAborted();
      const content = pass < randomPasses ? await filledRandomly(piece) : zeros;
      await writeAll(file, content.subarray(0, bytes), at);
    }
    await file.datasync(); // otherwise the next pass would only replace this one in memory
  }
  return written.length > 0;
}

async function ranges(
  { sizeBytes, mustBeSame }: ErasureTarget,
  fromBytes: bigint,
  lengthBytes: bigint,
  onClean: OnClean,
  signal: AbortSignal,
  clean: (at: bigint, length: bigint) => Promise<void>,
): Promise<void> {
  for (let at = fromBytes; at < sizeBytes; at += lengthBytes) {
    signal.throwIfAborted();
    await mustBeSame(signal);
    const end = at + lengthBytes < sizeBytes ? at + lengthBytes : sizeBytes;
    await clean(at, end - at);
    await onClean(end);
  }
}

interface Buffers {
  readonly piece: Uint8Array;
  readonly zeros: Uint8Array;
}

interface Piece {
  readonly at: number;
  readonly bytes: number;
}

function piecesOf(at: bigint, length: bigint): Piece[] {
  const [start, end] = [Number(at), Number(at + length)];
  const count = Math.ceil((end - start) / pieceBytes);
  return Array.from({ length: count }, (_, i) => {
    const at = start + i * pieceBytes;
    return { at, bytes: Math.min(pieceBytes, end - at) };
  });
}

/** Reading allocates nothing, unlike writing. */
async function holdingData(
  file: FileHandle,
  pieces: readonly Piece[],
  { piece: buffer, zeros }: Buffers,
  signal: AbortSignal,
): Promise<Piece[]> {
  const found: Piece[] = [];
  for (const piece of pieces) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, piece.bytes, piece.at);
    const isZero = Buffer.compare(buffer.subarray(0, bytesRead), zeros.subarray(0, piece.bytes)) === 0;
    if (!isZero) found.push(piece);
  }
  return found;
}

/** In another thread, as it is the slowest part. */
function filledRandomly(buffer: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    randomFill(buffer, (error, filled) => (error ? reject(error) : resolve(filled)));
  });
}

async function writeAll(file: FileHandle, content: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < content.length; ) {
    done += (await file.write(content, done, content.length - done, at + done)).bytesWritten;
  }
}
