import { createHash, randomBytes, randomInt } from 'node:crypto';
import { constants, open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { ChangeTracking, RoundKind } from '../../src/engine/changes/change-tracking.ts';
import { pieceBytes } from '../../src/engine/changes/known-hashes.ts';
import type { Position } from '../../src/engine/changes/position.ts';
import { command } from '../../worlds/lvm/inside.ts';
import { signal } from './lvm-pools.ts';

/** A file that follows a volume in rounds, as the target of a move does. */
export class FollowedCopy {
  readonly path: string;
  position: Position = {};

  private constructor(path: string) {
    this.path = path;
  }

  /** Contains something else, so that a block that is not copied is noticed. */
  static async create(path: string, sizeBytes: bigint): Promise<FollowedCopy> {
    await command('sh', '-c', `tr '\\0' x </dev/zero | head -c ${sizeBytes} >${path}`);
    return new FollowedCopy(path);
  }

  /** Copies one round; returns how many bytes it had to copy. */
  async follow(tracking: ChangeTracking, kind: RoundKind): Promise<number> {
    const { checkpoint, devicePath, blocks, hashes } = await tracking.round(kind, this.position, signal);
    await using source = await open(devicePath, constants.O_RDONLY); // of each checkpoint only this reads, once
    await using target = await open(this.path, 'r+');
    let copied = 0;
    for (const { kind, offset, length } of blocks.runs()) {
      for (let at = offset; at < offset + length; at += pieceBytes) {
        const piece = Buffer.alloc(Math.min(pieceBytes, offset + length - at));
        if (kind === 'data') await source.read(piece, 0, piece.length, at);
        const hash = createHash('sha256').update(piece).digest();
        if (hashes?.has(at, hash)) continue;
        await target.write(piece, 0, piece.length, at);
        hashes?.set(at, hash);
        copied += piece.length;
      }
    }
    this.position = { complete: checkpoint };
    return copied;
  }

  async isSameAs(devicePath: string): Promise<boolean> {
    await command('blockdev', '--flushbufs', devicePath);
    const [ours, theirs] = [await command('sha256sum', this.path), await command('sha256sum', devicePath)];
    return ours.split(' ')[0] === theirs.split(' ')[0];
  }
}

/** Writes random blocks of random sizes until it is stopped, and then closes the device. */
export class RandomWriter {
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  written = 0;

  constructor(devicePath: string, sizeBytes: bigint) {
    this.#done = this.#write(devicePath, Number(sizeBytes));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  async #write(path: string, size: number): Promise<void> {
    await using device = await open(path, 'r+');
    while (!this.#stopping.signal.aborted) {
      const block = randomBytes(4096 * randomInt(1, 33));
      const at = 512 * randomInt(0, (size - block.length) / 512);
      await device.write(block, 0, block.length, at);
      if (this.written % 5 === 0) await device.sync();
      this.written += 1;
      await delay(20); // lets the others run
    }
    await device.sync();
  }
}
