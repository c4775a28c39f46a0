import { randomBytes } from 'node:crypto';
import type { Volume } from '../pool.ts';
import { BlockMap } from './block-map.ts';
import type { ChangeTracking, Round, RoundKind } from './change-tracking.ts';
import { KnownHashes } from './known-hashes.ts';
import type { CheckpointId, Position } from './position.ts';

/**
 * For volumes without checkpoints. Each round reads all of the volume and sends what differs from what the copy has. It
 * needs no space and no tools. Data that is written meanwhile is copied in a later round.
 */
export class HashTracking implements ChangeTracking {
  readonly #volume: () => Volume;
  /** Distinguishes the rounds of this process, which knows their hashes, from others. */
  readonly #prefix = `hashes-${randomBytes(4).toString('hex')}-`;
  #hashes: KnownHashes | undefined;
  #rounds = 0;

  constructor(volume: () => Volume) {
    this.#volume = volume;
  }

  async round(_kind: RoundKind, copy: Position): Promise<Round> {
    const { devicePath, sizeBytes } = this.#volume();
    const isKnown = this.#isOurs(copy.partial?.checkpoint ?? copy.complete);
    const hashes = (isKnown && this.#hashes) || KnownHashes.of(sizeBytes);
    this.#hashes = hashes;
    return {
      checkpoint: `${this.#prefix}${++this.#rounds}`,
      ...(isKnown && copy.complete && { base: copy.complete }),
      devicePath,
      sizeBytes,
      blocks: BlockMap.all(sizeBytes, 'data'),
      hashes,
    };
  }

  async end(): Promise<void> {
    this.#hashes = undefined;
  }

  #isOurs(checkpoint: CheckpointId | undefined): boolean {
    return checkpoint?.startsWith(this.#prefix) ?? false;
  }
}
