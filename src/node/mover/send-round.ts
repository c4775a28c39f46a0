import { createHash } from 'node:crypto';
import { constants, open } from 'node:fs/promises';
import { abortable } from '../../base/abortable.ts';
import { systemClock } from '../../base/clock.ts';
import { RateLimit } from '../../base/rate-limit.ts';
import type { BlockKind, BlockMap, BlockRun } from '../../engine/changes/block-map.ts';
import { type KnownHashes, pieceBytes } from '../../engine/changes/known-hashes.ts';
import { Buffers } from './buffers.ts';
import type { Connection } from './connection.ts';
import { Disk, sha256 } from './disk.ts';
import { encodeHeader, isZero, maxZeroBytes } from './frames.ts';

/** Pieces that are read ahead. */
const depth = 6;

export interface RoundToSend {
  readonly devicePath: string;
  readonly blocks: BlockMap;
  readonly fromOffset: number;
  readonly hashes: KnownHashes | undefined;
  readonly bytesPerSecond: number | undefined;
}

interface Piece extends BlockRun {
  readonly hash?: Uint8Array;
  readonly data?: Uint8Array<ArrayBuffer>;
}

/** Sends what a round has from an offset on, in ascending order. Zeros are only announced. */
export class RoundSender {
  readonly #connection: Connection;
  readonly #round: RoundToSend;
  readonly #buffers = new Buffers();
  readonly #digest = createHash('sha256');
  /** Sent, but perhaps not yet on the disk of the target: the hash of each piece by its offset. */
  readonly #underway = new Map<number, Uint8Array>();
  #zeros: BlockRun | undefined;

  constructor(connection: Connection, round: RoundToSend) {
    this.#connection = connection;
    this.#round = round;
  }

  /** Returns the digest of everything that was sent. */
  async send(): Promise<string> {
    const { devicePath, hashes, bytesPerSecond } = this.#round;
    const { signal } = this.#connection;
    await using file = await open(devicePath, constants.O_RDONLY | constants.O_DIRECT);
    const limit =
      bytesPerSecond && new RateLimit({ clock: systemClock, burst: bytesPerSecond, perSecond: bytesPerSecond });
    for await (const piece of this.#pieces(new Disk(devicePath, file))) {
      signal.throwIfAborted();
      if (piece.hash && hashes?.has(piece.offset, piece.hash)) {
        this.#giveBack(piece);
        continue;
      }
      if (piece.hash && hashes) {
        hashes.forget(piece.offset);
        this.#underway.set(piece.offset, piece.hash);
      }
      if (limit && piece.kind === 'data') await limit.take(signal, piece.length);
      this.#send(piece);
    }
    this.#sendZeros();
    return this.#digest.digest('hex');
  }

  /** Everything before this offset is on the disk of the target. */
  reached(offset: number): void {
    for (const [sentAt, hash] of this.#underway) {
      if (sentAt >= offset) return;
      this.#round.hashes?.set(sentAt, hash);
      this.#underway.delete(sentAt);
    }
  }

  #send(piece: Piece): void {
    const isMore = this.#zeros && piece.offset === this.#zeros.offset + this.#zeros.length;
    if (piece.kind === 'zero' && this.#zeros && isMore && this.#zeros.length + piece.length <= maxZeroBytes) {
      this.#zeros = { ...this.#zeros, length: this.#zeros.length + piece.length };
    } else {
      this.#sendZeros();
      if (piece.kind === 'zero') this.#zeros = piece;
      else this.#sendFrame(piece);
    }
    if (piece.kind === 'zero') this.#giveBack(piece);
  }

  #sendZeros(): void {
    if (this.#zeros) this.#sendFrame({ ...this.#zeros, kind: 'zero' });
    this.#zeros = undefined;
  }

  #sendFrame({ kind, offset, length, hash, data }: Piece): void {
    const header = encodeHeader({ kind, offset, length, ...(kind === 'data' && hash && { hash }) });
    this.#digest.update(header);
    if (kind === 'zero' || !data) this.#connection.send(header);
    else this.#connection.send(header, data.subarray(0, length), () => this.#buffers.giveBack(data));
  }

  #giveBack({ data }: Piece): void {
    if (data) this.#buffers.giveBack(data);
  }

  /** Several are read and hashed at the same time, and returned in order. */
  async *#pieces(disk: Disk): AsyncGenerator<Piece> {
    const ahead: Promise<Piece>[] = [];
    try {
      for (const range of this.#ranges()) {
        const piece = range.kind === 'zero' && !this.#round.hashes ? Promise.resolve(range) : this.#read(disk, range);
        piece.catch(() => undefined); // whoever awaits it gets the error
        ahead.push(piece);
        if (ahead.length > depth) yield await (ahead.shift() as Promise<Piece>);
      }
      while (ahead.length > 0) yield await (ahead.shift() as Promise<Piece>);
    } finally {
      await Promise.allSettled(ahead); // they use the file
    }
  }

  async #read(disk: Disk, { offset, length }: BlockRun): Promise<Piece> {
    const data = await abortable(this.#buffers.take(), this.#connection.signal);
    const filled = data.subarray(0, length);
    await disk.read(filled, offset);
    const kind: BlockKind = isZero(filled) ? 'zero' : 'data';
    const needsHash = kind === 'data' || this.#round.hashes !== undefined;
    return { kind, offset, length, data, ...(needsHash && { hash: await sha256(filled) }) };
  }

  /** Data in pieces that begin and end at multiples of their size. */
  *#ranges(): Generator<BlockRun> {
    const { blocks, fromOffset } = this.#round;
    for (const { kind, offset, length } of blocks.runs(fromOffset)) {
      for (let at = offset; at < offset + length; ) {
        const most = kind === 'zero' ? maxZeroBytes : pieceBytes - (at % pieceBytes);
        const bytes = Math.min(most, offset + length - at);
        yield { kind, offset: at, length: bytes };
        at += bytes;
      }
    }
  }
}
