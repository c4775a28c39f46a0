import { randomFill } from 'node:crypto';
import { constants, type FileHandle, open, readFile, stat, statfs } from 'node:fs/promises';
import { deviceNumber } from '../../base/device-number.ts';
import { MoorageError } from '../../base/errors.ts';
import type { Run } from '../../base/exec.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { SnapshotUnsupported } from '../errors.ts';

/** Where the bytes are that are to be destroyed. What is mounted, or has another device on it, is refused. */
export interface ErasureTarget {
  /** A thick volume is overwritten in place; a thin volume or a file must take no more room than it has. */
  readonly kind: 'thick' | 'thin' | 'file';
  readonly path: string;
  readonly sizeBytes: bigint;
  /** Throws ErasureCalledOff unless the path still means the very volume that was marked, and it is still marked. */
  readonly mustBeSame: (signal: AbortSignal) => Promise<void>;
}

/** What was opened is destroyed, whatever has its name by now. */
interface OpenTarget extends ErasureTarget {
  /** What was done to it outlives a power loss: blkdiscard and fallocate leave it in caches, of the disk or of the filesystem. */
  flush(): Promise<void>;
}

/** Told after each stretch: the target is clean, on the disk, up to here. */
export type OnClean = (cleanBytes: bigint) => Promise<void>;

const pieceBytes = 1024 * 1024;
/** What is lost when it is interrupted, so not too much; what is flushed at once, so not too little. */
const overwrittenAtOnce = 64n * 1024n ** 2n;
const zeroedAtOnce = 256n * 1024n ** 2n;
const discardedAtOnce = 4n * 1024n ** 3n;
const commandTimeoutMs = 600_000; // a slow disk writes zeros at 20 MB/s

/** The class promises what this volume's disk or filesystem cannot do. */
export class EraseUnsupported extends MoorageError {
  readonly code = 'FailedPrecondition';
}

const btrfs = 0x9123683en;

function overwritesIn({ kind }: ErasePolicy): boolean {
  return kind === 'zero' || kind === 'shred';
}

/**
 * A thin pool writes anew what two volumes have ever shared, even when only one of them is left: there is no way to
 * overwrite it. So where a class promises to overwrite, nothing is shared in the first place.
 */
export function mustAllowThinSnapshots(deviceClass: string, policy: ErasePolicy): void {
  if (!overwritesIn(policy)) return;
  throw new SnapshotUnsupported(
    `device class ${deviceClass} has no snapshots or clones, as what they share could not be overwritten by ` +
      `erase: ${policy.kind}; use a class with erase: discard or none`,
  );
}

/** Whether the policy can be kept must be known before a volume is marked: afterwards there is no way back. */
export async function mustBeErasable(
  { kind, path, isCopy = false }: Pick<ErasureTarget, 'kind' | 'path'> & { readonly isCopy?: boolean },
  policy: ErasePolicy,
): Promise<void> {
  const overwrites = overwritesIn(policy);
  if (overwrites && kind === 'thin' && isCopy) {
    throw new EraseUnsupported(
      `erase: ${policy.kind} cannot be kept for ${path}: a thin pool never overwrites in place what a snapshot shares; ` +
        'use erase: discard or none for its device class to remove it',
    );
  }
  if (kind === 'file') {
    if (!overwrites || (await statfs(path, { bigint: true })).type !== btrfs) return;
    throw new EraseUnsupported(
      `erase: ${policy.kind} cannot be kept for ${path}: btrfs never overwrites data in place; ` +
        'use erase: discard or none, or a directory on ext4 or xfs',
    );
  }
  const discards = policy.kind === 'discard' || (kind === 'thin' && overwrites);
  if (!discards || (await canDiscard(path))) return;
  throw new EraseUnsupported(
    `erase: ${policy.kind} cannot be kept for ${path}, as it takes no discards; ` +
      (kind === 'thin' ? 'allow discards for its thin pool' : 'use erase: zero or shred for its device class'),
  );
}

/** Whether all disks below a device take discards. */
export async function canDiscard(devicePath: string): Promise<boolean> {
  const { rdev } = await stat(devicePath, { bigint: true });
  const limit = await readFile(`/sys/dev/block/${deviceNumber(rdev)}/queue/discard_max_bytes`, 'utf8');
  return Number(limit) > 0;
}

/**
 * Destroys data, from a given offset to the end, one stretch after the other: each gets all its passes and is on the
 * disk before the next begins, so an offset is all there is to remember. One piece is written at a time.
 *
 * A name may come to mean another volume at any time. So the target is opened first, and is asked before each stretch
 * whether it is still the same: what is open, the kernel keeps, and all is done to that.
 *
 * A thin volume or a file has no place on the disk where nothing was written, and writing there would only take one. So
 * what reads as zeros is left as it is, and each stretch is given back to the pool once it is clean: where a file shares
 * blocks with a copy, which are the copy's to keep, overwriting never takes more room than one stretch.
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
    await named.mustBeSame(signal); // what is gone cannot be opened
    await using kept = await open(named.path, 'r');
    const target = { ...named, path: `/proc/${process.pid}/fd/${kept.fd}`, flush: () => kept.sync() };
    await this.#destroy(target, policy, fromBytes, onClean, signal);
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
        return stretches(target, fromBytes, discardedAtOnce, onClean, signal, (at, length) =>
          this.#giveBack(target, at, length, signal),
        );
      case 'zero':
        return target.kind === 'thick'
          ? this.#zeroOut(target, fromBytes, onClean, signal)
          : this.#overwrite(target, 0, fromBytes, onClean, signal);
      case 'shred':
        return this.#overwrite(target, policy.passes, fromBytes, onClean, signal);
    }
  }

  /** The kernel writes the zeros, or has the disk do it where it can. */
  async #zeroOut(target: OpenTarget, fromBytes: bigint, onClean: OnClean, signal: AbortSignal): Promise<void> {
    await stretches(target, fromBytes, zeroedAtOnce, onClean, signal, async (at, length) => {
      await this.#blkdiscard(['--zeroout'], target, at, length, signal);
    });
  }

  /** Random bytes as many times as asked for, then zeros. */
  async #overwrite(
    target: OpenTarget,
    randomPasses: number,
    fromBytes: bigint,
    onClean: OnClean,
    signal: AbortSignal,
  ): Promise<void> {
    const piece = new Uint8Array(pieceBytes);
    const zeros = new Uint8Array(pieceBytes);
    const isSparse = target.kind !== 'thick';
    await stretches(target, fromBytes, overwrittenAtOnce, onClean, signal, async (at, length) => {
      const pieces = piecesOf(at, length);
      {
        await using file = await open(target.path, constants.O_RDWR | constants.O_EXCL);
        const written = isSparse ? await holdingData(file, pieces, { piece, zeros }, signal) : pieces;
        if (written.length === 0) return;
        for (let pass = 0; pass <= randomPasses; pass++) {
          for (const { at, bytes } of written) {
            signal.throwIfAborted();
            const content = pass < randomPasses ? await filledRandomly(piece) : zeros;
            await writeAll(file, content.subarray(0, bytes), at);
          }
          await file.datasync(); // or the next pass would only replace this one in memory
        }
      } // blkdiscard wants it for itself too
      if (isSparse) await this.#giveBack(target, at, length, signal);
    });
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

async function stretches(
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

/** Reading takes no room, where writing would. */
async function holdingData(
  file: FileHandle,
  pieces: readonly Piece[],
  { piece: buffer, zeros }: { readonly piece: Uint8Array; readonly zeros: Uint8Array },
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

/** In another thread: it takes longer than everything else here. */
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
