import { abortable } from '../../base/abortable.ts';
import type { Clock } from '../../base/clock.ts';
import { MoorageError } from '../../base/errors.ts';
import { KeyedQueue, Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Erasure, VolumeId } from '../pool.ts';
import type { Eraser, ErasureTarget } from './eraser.ts';
import type { ErasureRecord } from './erasure-tags.ts';

/** Somebody removed the volume or its mark, or created another volume with its name, which must not be erased. */
export class ErasureCancelled extends MoorageError {
  readonly code = 'Aborted';

  constructor(id: string) {
    super(
      `volume ${id} was removed, replaced or unmarked during its erasure, and not all of its data was destroyed; ` +
        'check whether it still exists',
    );
  }
}

/** A volume that is marked for erasure, with the operations of its pool. */
export interface ErasureWork extends ErasureRecord {
  readonly id: VolumeId;
  readonly target: ErasureTarget;
  /** Records durably that the volume is clean up to this offset, where a restart continues; see `mustBeSame`. */
  record(cleanBytes: bigint): Promise<void>;
  /** Frees the space of the clean volume, or makes it usable again if it is kept. Retried if it fails. */
  release(): Promise<void>;
}

interface Entry {
  readonly work: ErasureWork;
  cleanBytes: bigint;
  recordedBytes: bigint;
  /** The outcome of the running or next attempt. */
  attempt: PromiseWithResolvers<void>;
}

interface ErasuresOptions {
  readonly eraser: Pick<Eraser, 'erase'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Two at once let a small volume pass a large one; more would only compete for the same disks. */
const atOnce = 2;
/** Each record changes the pool's metadata. */
const recordedPerVolume = 20n;

/**
 * The volumes of one pool whose data is being erased. The work goes on when callers leave, and is retried when it fails,
 * until the volume is clean and released, or is no longer the one that was marked. All state is in the volume's own tags,
 * so after a crash the pool adds every marked volume again.
 */
export class Erasures {
  readonly #eraser: Pick<Eraser, 'erase'>;
  readonly #log: Log;
  readonly #queue: KeyedQueue;
  readonly #entries = new Map<VolumeId, Entry>();

  constructor({ eraser, clock, log }: ErasuresOptions) {
    this.#eraser = eraser;
    this.#log = log;
    this.#queue = new KeyedQueue({
      reconcile: (id, signal) => this.#erase(id, signal),
      concurrency: atOnce,
      clock,
      log,
      random: Math.random,
    });
  }

  list(): readonly Erasure[] {
    return [...this.#entries.values()].map(({ work, cleanBytes }) => {
      const passes = work.policy.kind === 'shred' ? BigInt(work.policy.passes) + 1n : 1n;
      return { id: work.id, doneBytes: cleanBytes * passes, totalBytes: work.target.sizeBytes * passes };
    });
  }

  has(id: VolumeId): boolean {
    return this.#entries.has(id);
  }

  /** Whether the volume is being erased and is kept afterwards. */
  isEmptying(id: VolumeId): boolean {
    return this.#entries.get(id)?.work.isKept ?? false;
  }

  /** Does nothing for a volume that is already being erased. */
  add(work: ErasureWork): void {
    if (this.#entries.has(work.id)) return;
    const { id, cleanBytes } = work;
    this.#entries.set(id, { work, cleanBytes, recordedBytes: cleanBytes, attempt: newAttempt() });
    this.#queue.add(id);
  }

  /** Resolves when the volume is clean and released, at once if it is unknown; rejects if the current attempt fails. */
  async join(id: VolumeId, signal: AbortSignal): Promise<void> {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#queue.add(id); // retries a failed erasure at once, as a caller waits
    await abortable(entry.attempt.promise, signal);
  }

  /** Unfinished erasures are found again by their tags. */
  async stop(graceMs: number): Promise<void> {
    await this.#queue.stop(graceMs);
  }

  async #erase(id: VolumeId, signal: AbortSignal): Promise<Requeue> {
    const entry = this.#entries.get(id);
    if (!entry) return Requeue.never; // done since it was queued
    const { work, attempt } = entry;
    try {
      const onClean = (cleanBytes: bigint) => this.#progress(entry, cleanBytes);
      await this.#eraser.erase(work.target, work.policy, entry.cleanBytes, onClean, signal);
      await work.release();
    } catch (error) {
      if (error instanceof ErasureCancelled) return this.#cancel(entry, error);
      entry.attempt = newAttempt();
      attempt.reject(error);
      throw error; // the queue retries
    }
    this.#entries.delete(id);
    attempt.resolve();
    return Requeue.never;
  }

  /** If the volume is marked again, its pool adds it again. */
  #cancel({ work, attempt }: Entry, reason: ErasureCancelled): Requeue {
    this.#log.warn({ volume: work.id }, reason.message);
    this.#entries.delete(work.id);
    attempt.reject(reason);
    return Requeue.never;
  }

  async #progress(entry: Entry, cleanBytes: bigint): Promise<void> {
    const { work } = entry;
    entry.cleanBytes = cleanBytes;
    const isDone = cleanBytes >= work.target.sizeBytes;
    if (isDone || cleanBytes - entry.recordedBytes < work.target.sizeBytes / recordedPerVolume) return;
    await work.record(cleanBytes);
    entry.recordedBytes = cleanBytes;
  }
}

function newAttempt(): PromiseWithResolvers<void> {
  const attempt = Promise.withResolvers<void>();
  attempt.promise.catch(() => undefined); // there may be no waiter; the queue logs errors
  return attempt;
}
