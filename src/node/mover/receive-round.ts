import { createHash } from 'node:crypto';
import { constants, open } from 'node:fs/promises';
import { abortable } from '../../base/abortable.ts';
import { alignedBuffer } from '../../base/aligned-buffer.ts';
import { InvalidInput } from '../../base/errors.ts';
import type { Run } from '../../base/exec.ts';
import { pieceBytes } from '../../engine/changes/known-hashes.ts';
import { Buffers } from './buffers.ts';
import type { Connection } from './connection.ts';
import { Disk, sha256 } from './disk.ts';
import { CopyDiffers, FrameCorrupted, SourceFailed } from './errors.ts';
import { decodeHeader, type Header, isZero } from './frames.ts';
import { parseSourceMessage, type SourceMessage } from './messages.ts';

/** Few flushes, and little to send again after a crash. */
const flushedBytes = 256 * 1024 ** 2;
const defaultFlushMs = 2_000;
/** The kernel zeroes a long range faster than we write it; for a short one, starting a process takes longer. */
const longZeroBytes = 16 * 1024 ** 2;
const zeroTimeoutMs = 600_000;

export interface TargetDevice {
  readonly path: string;
  readonly sizeBytes: number;
  /** Nothing is allocated where it was never written, so zeros are written only where it has something else. */
  readonly isSparse: boolean;
  /** It reads as zeros wherever this round has not written yet. */
  readonly isZeroed: boolean;
}

export interface ReceiverOptions {
  readonly connection: Connection;
  readonly target: TargetDevice;
  /** Reads back everything that was written, and compares it with its hash. */
  readonly verifies: boolean;
  /** Everything before this offset is on the disk. */
  readonly onReached: (reached: { readonly offset: number; readonly doneBytes: number }) => void;
  readonly run: Run;
  readonly flushMs?: number;
}

export interface Received {
  /** Of all frames, at both ends. */
  readonly sha256: string;
  readonly sentBytes: number;
  readonly changedBytes: number;
}

/** Writes what a round has to the target. Nobody else may have it open. */
export class RoundReceiver {
  readonly #options: ReceiverOptions;
  readonly #buffers = new Buffers();
  readonly #zeros = alignedBuffer(pieceBytes);
  readonly #digest = createHash('sha256');
  readonly #writes = new Set<Promise<void>>();
  /** The headers of all frames that were written, to be verified. */
  readonly #written: Buffer[] = [];
  #end = 0;
  #sentBytes = 0;
  #changedBytes = 0;
  #unflushedBytes = 0;
  #flushedAt = performance.now();

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  async receive(): Promise<Received> {
    const { connection, target, verifies } = this.#options;
    await using file = await open(target.path, constants.O_RDWR | constants.O_DIRECT | constants.O_EXCL);
    const disk = new Disk(target.path, file);
    try {
      const expected = await this.#receiveAll(disk);
      await this.#flush(disk);
      const digest = this.#digest.digest('hex');
      if (digest !== expected) throw new FrameCorrupted(this.#end);
      if (verifies) await this.#verify(disk);
      connection.tell({ type: 'done' });
      return { sha256: digest, sentBytes: this.#sentBytes, changedBytes: this.#changedBytes };
    } finally {
      await Promise.allSettled(this.#writes); // they use the file
    }
  }

  /** Returns the digest that the source has sent. */
  async #receiveAll(disk: Disk): Promise<string> {
    const { connection } = this.#options;
    for (;;) {
      const bytes = await connection.readHeader();
      const header = decodeHeader(bytes);
      if (header.kind === 'message') {
        const message = await this.#readMessage(header.length);
        if (message.type === 'failed') throw new SourceFailed(connection.peer, message.message);
        if (message.type === 'end') return message.sha256;
        continue;
      }
      this.#mustFollow(header);
      this.#digest.update(bytes);
      if (header.kind === 'data') await this.#receiveData(disk, header);
      else if (!this.#options.target.isZeroed) await this.#writeZeros(disk, header);
      if (this.#options.verifies && !(header.kind === 'zero' && this.#options.target.isZeroed))
        this.#written.push(bytes);
      const isLate = performance.now() - this.#flushedAt > (this.#options.flushMs ?? defaultFlushMs);
      if (isLate || this.#unflushedBytes > flushedBytes) await this.#flush(disk);
    }
  }

  async #readMessage(length: number): Promise<SourceMessage> {
    const text = Buffer.alloc(length);
    await this.#options.connection.read(text);
    return parseSourceMessage(text);
  }

  #mustFollow({ offset, length }: Header): void {
    if (offset < this.#end || offset + length > this.#options.target.sizeBytes) {
      throw new InvalidInput(`the source of the move sent data for offset ${offset}, where it does not belong`);
    }
    this.#end = offset + length;
    this.#changedBytes += length;
  }

  async #receiveData(disk: Disk, header: Header): Promise<void> {
    const { connection } = this.#options;
    const buffer = await abortable(this.#buffers.take(), connection.signal);
    await connection.read(buffer.subarray(0, header.length));
    this.#sentBytes += header.length;
    this.#unflushedBytes += header.length;
    const write = this.#store(disk, header, buffer)
      .catch((error: Error) => connection.fail(error)) // whoever waits for more gets it
      .finally(() => this.#writes.delete(write));
    this.#writes.add(write);
  }

  async #store(disk: Disk, { offset, length, hash }: Header, buffer: Uint8Array<ArrayBuffer>): Promise<void> {
    const data = buffer.subarray(0, length);
    if (!hash || Buffer.compare(await sha256(data), hash) !== 0) throw new FrameCorrupted(offset);
    await disk.write(data, offset);
    this.#buffers.giveBack(buffer);
  }

  async #writeZeros(disk: Disk, { offset, length }: Header): Promise<void> {
    const { target, run } = this.#options;
    if (!target.isSparse && length >= longZeroBytes) {
      const range = ['--offset', String(offset), '--length', String(length)];
      await run(['blkdiscard', '--force', '--zeroout', ...range, target.path], { timeoutMs: zeroTimeoutMs }); // we hold it
      return;
    }
    for (let at = offset; at < offset + length; at += pieceBytes) {
      const zeros = this.#zeros.subarray(0, Math.min(pieceBytes, offset + length - at));
      if (!target.isSparse || !(await this.#isZero(disk, at, zeros.length))) await disk.write(zeros, at);
      this.#options.connection.signal.throwIfAborted();
    }
  }

  async #isZero(disk: Disk, offset: number, length: number): Promise<boolean> {
    const buffer = await abortable(this.#buffers.take(), this.#options.connection.signal);
    await disk.read(buffer.subarray(0, length), offset);
    const found = isZero(buffer.subarray(0, length));
    this.#buffers.giveBack(buffer);
    return found;
  }

  async #flush(disk: Disk): Promise<void> {
    const { connection, onReached } = this.#options;
    await Promise.all(this.#writes);
    connection.signal.throwIfAborted(); // one of the writes may have failed
    await disk.flush();
    this.#unflushedBytes = 0;
    this.#flushedAt = performance.now();
    connection.tell({ type: 'reached', offset: this.#end });
    onReached({ offset: this.#end, doneBytes: this.#changedBytes });
  }

  /** What the disk itself returns. Several pieces are read at the same time, as the volume cannot be used meanwhile. */
  async #verify(disk: Disk): Promise<void> {
    const checks = new Set<Promise<void>>();
    const { signal } = this.#options.connection;
    for (const piece of this.#writtenPieces()) {
      const buffer = await abortable(this.#buffers.take(), signal);
      const check = this.#mustBeOn(disk, piece, buffer)
        .catch((error: Error) => this.#options.connection.fail(error))
        .finally(() => checks.delete(check));
      checks.add(check);
    }
    await Promise.all(checks);
    signal.throwIfAborted();
  }

  async #mustBeOn(disk: Disk, { kind, offset, length, hash }: Header, buffer: Uint8Array<ArrayBuffer>): Promise<void> {
    const data = buffer.subarray(0, length);
    await disk.read(data, offset);
    const isSame = kind === 'zero' ? isZero(data) : hash && Buffer.compare(await sha256(data), hash) === 0;
    if (!isSame) throw new CopyDiffers(disk.path, offset);
    this.#buffers.giveBack(buffer);
  }

  *#writtenPieces(): Generator<Header> {
    for (const bytes of this.#written) {
      const header = decodeHeader(bytes);
      const end = header.offset + header.length;
      for (let offset = header.offset; offset < end; offset += pieceBytes) {
        yield { ...header, offset, length: Math.min(pieceBytes, end - offset) };
      }
    }
  }
}
