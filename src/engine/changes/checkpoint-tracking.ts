import { randomBytes } from 'node:crypto';
import { MoorageError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Volume } from '../pool.ts';
import { BlockMap } from './block-map.ts';
import type { ChangeTracking, Round, RoundKind } from './change-tracking.ts';
import { HashTracking } from './hash-tracking.ts';
import type { CheckpointId, Position } from './position.ts';

/** A snapshot that is taken to track changes. */
export interface Checkpoint {
  readonly id: CheckpointId;
  readonly devicePath: string;
}

/** The checkpoints of one volume. They are on the disk, so they survive a crash of the process and of the node. */
export interface Checkpoints {
  /** Fails with NoCheckpoints if one was lost. */
  list(signal: AbortSignal): Promise<readonly Checkpoint[]>;
  /** Fails with NoCheckpoints if there can be none. */
  create(id: CheckpointId, signal: AbortSignal): Promise<Checkpoint>;
  remove(id: CheckpointId, signal: AbortSignal): Promise<void>;
  /** Removes all, whole or not, and whatever else an earlier process left. */
  removeAll(signal: AbortSignal): Promise<void>;
  /** What differs between a checkpoint and a later one, or the volume itself. More than that is allowed, less is not. */
  changes(from: Checkpoint, to: Checkpoint | undefined, signal: AbortSignal): Promise<BlockMap>;
  /** All of a checkpoint, or of the volume itself. */
  contents(of: Checkpoint | undefined, signal: AbortSignal): Promise<BlockMap>;
}

/** Changes have to be found by hashes instead. */
export class NoCheckpoints extends MoorageError {
  readonly code = 'FailedPrecondition';
}

/** Pods may write to it while it is copied. */
class NotOfOneMoment extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, cause: NoCheckpoints) {
    super(`volume ${id} cannot be copied as it is at one moment: ${cause.message}; copy a snapshot of it instead`, {
      cause,
    });
  }
}

interface CheckpointTrackingOptions {
  readonly checkpoints: Checkpoints;
  readonly volume: () => Volume;
  readonly log: Log;
}

/**
 * Finds changes by comparing checkpoints. At most two exist: the one that the copy has completely, and the one that it
 * is getting. The first is kept until the copy has the second, so that both sides can resume after a crash.
 */
export class CheckpointTracking implements ChangeTracking {
  readonly #checkpoints: Checkpoints;
  readonly #volume: () => Volume;
  readonly #log: Log;
  #byHashes: HashTracking | undefined;

  constructor({ checkpoints, volume, log }: CheckpointTrackingOptions) {
    this.#checkpoints = checkpoints;
    this.#volume = volume;
    this.#log = log;
  }

  async round(kind: RoundKind, copy: Position, signal: AbortSignal): Promise<Round> {
    if (kind === 'whole') return this.#whole(this.#volume(), copy, signal);
    if (this.#byHashes) return this.#byHashes.round(kind, copy);
    const volume = this.#volume();
    try {
      return await (kind === 'next' ? this.#next(volume, copy, signal) : this.#last(volume, copy, signal));
    } catch (error) {
      if (!(error instanceof NoCheckpoints)) throw error;
      this.#log.warn(
        { err: error, volume: volume.id },
        `each round of the move of volume ${volume.id} reads all of it: ${error.message}`,
      );
      await this.#checkpoints.removeAll(signal);
      this.#byHashes = new HashTracking(this.#volume);
      return this.#byHashes.round(kind, copy);
    }
  }

  async end(signal: AbortSignal): Promise<void> {
    await this.#checkpoints.removeAll(signal);
    this.#byHashes = undefined;
  }

  async #next({ sizeBytes }: Volume, copy: Position, signal: AbortSignal): Promise<Round> {
    const existing = await this.#checkpoints.list(signal);
    const { complete, partial } = known(existing, copy);
    if (partial && (complete || copy.complete === undefined)) {
      return { ...(await this.#between(complete, partial, signal)), sizeBytes };
    }
    // Parts of an unknown checkpoint may be anywhere.
    const base = copy.partial ? undefined : complete;
    for (const { id } of existing) if (id !== base?.id) await this.#checkpoints.remove(id, signal);
    const created = await this.#checkpoints.create(`checkpoint-${randomBytes(6).toString('hex')}`, signal);
    return { ...(await this.#between(base, created, signal)), sizeBytes };
  }

  /** Hashes would mix what the volume has at different times. A snapshot is a moment itself. */
  async #whole(volume: Volume, copy: Position, signal: AbortSignal): Promise<Round> {
    const { id, devicePath, sizeBytes, readOnly } = volume;
    try {
      if (!readOnly) return await this.#next(volume, copy, signal);
      return {
        checkpoint: 'whole',
        devicePath,
        sizeBytes,
        blocks: await this.#checkpoints.contents(undefined, signal),
      };
    } catch (error) {
      if (!(error instanceof NoCheckpoints)) throw error;
      if (readOnly) return { checkpoint: 'whole', devicePath, sizeBytes, blocks: BlockMap.all(sizeBytes, 'data') };
      await this.#checkpoints.removeAll(signal); // the next attempt begins with a new one
      throw new NotOfOneMoment(id, error);
    }
  }

  async #between(base: Checkpoint | undefined, to: Checkpoint, signal: AbortSignal): Promise<Omit<Round, 'sizeBytes'>> {
    return {
      checkpoint: to.id,
      ...(base && { base: base.id }),
      devicePath: to.devicePath,
      blocks: base ? await this.#checkpoints.changes(base, to, signal) : await this.#checkpoints.contents(to, signal),
    };
  }

  /** A retried last round finds the same changes, as the volume is read-only. */
  async #last({ devicePath, sizeBytes }: Volume, copy: Position, signal: AbortSignal): Promise<Round> {
    const { complete, partial } = known(await this.#checkpoints.list(signal), copy);
    const isUnknown = copy.partial && !partial && !copy.partial.checkpoint.startsWith(lastPrefix);
    const round = { checkpoint: `${lastPrefix}${randomBytes(6).toString('hex')}`, devicePath, sizeBytes };
    if (!complete || isUnknown) return { ...round, blocks: await this.#checkpoints.contents(undefined, signal) };
    const blocks = await this.#checkpoints.changes(complete, partial, signal);
    if (partial) blocks.add(await this.#checkpoints.changes(partial, undefined, signal));
    return { ...round, base: complete.id, blocks };
  }
}

const lastPrefix = 'last-';

interface Known {
  readonly complete: Checkpoint | undefined;
  readonly partial: Checkpoint | undefined;
}

function known(existing: readonly Checkpoint[], { complete, partial }: Position): Known {
  const find = (id: CheckpointId | undefined) => existing.find((checkpoint) => checkpoint.id === id);
  return { complete: find(complete), partial: find(partial?.checkpoint) };
}
