import type { BlockMap } from './block-map.ts';
import type { KnownHashes } from './known-hashes.ts';
import type { CheckpointId, Position } from './position.ts';

/**
 * The changes of one volume, for a copy of it that follows while the volume is in use. A copy is made in rounds: each
 * takes it to a checkpoint, a state of the volume at one time. All but the last are taken while the volume is written.
 */
export interface ChangeTracking {
  /**
   * What a copy at this position lacks. `next`: up to a new checkpoint, or up to the one that it has a part of. `last`:
   * up to the volume itself, which must be closed and stay read-only until the move ends. `whole`: the only round of a copy
   * that is not followed up, of one moment; it fails if that is not possible. A copy at an unknown position gets everything.
   */
  round(kind: RoundKind, copy: Position, signal: AbortSignal): Promise<Round>;

  /** Removes the checkpoints of this volume, including those that an earlier process left. */
  end(signal: AbortSignal): Promise<void>;
}

export type RoundKind = 'next' | 'last' | 'whole';

export interface Round {
  /** What the copy is after this round. */
  readonly checkpoint: CheckpointId;
  /** What it has to be before; undefined if the round has everything. */
  readonly base?: CheckpointId;
  /** Reads as the checkpoint does until the next round. It is read past the page cache. */
  readonly devicePath: string;
  readonly sizeBytes: bigint;
  /** What may have changed since the base. */
  readonly blocks: BlockMap;
  /** For a volume without checkpoints: what the copy has on its disk, so that only what differs is sent. */
  readonly hashes?: KnownHashes;
}
