import { abortable } from '../../base/abortable.ts';
import type { Clock } from '../../base/clock.ts';
import { KeyedQueue, Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Erasure, VolumeId } from '../pool.ts';
import type { Eraser, ErasureTarget } from './eraser.ts';
import { ErasureCalledOff, type ErasureRecord } from './erasure.ts';

/** A volume that carries the tags of an erasure, and what its pool can do for it. */
export interface ErasureWork extends ErasureRecord {
  readonly id: VolumeId;
  readonly target: ErasureTarget;
  /** Makes it durable that the volume is clean up to here, so that a restart goes on from there; see `mustBeSame`. */
  record(cleanBytes: bigint): Promise<void>;
  /** The volume is clean: gives its space back. Called again if it fails. */
  release(): Promise<void>;
}

interface Entry {
  readonly work: ErasureWork;
  cleanBytes: bigint;
  recordedBytes: bigint;
  /** How the attempt that is running or comes next ends. */
  attempt: PromiseWithResolvers<void>;
}

interface ErasuresOptions {
  readonly eraser: Pick<Eraser, 'erase'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Two volumes at once let a small one pass a large one; more would only share the same disks. */
const atOnce = 2;
/** Each record is a change of the pool's metadata. */
const recordedPerVolume = 20n;

/**
 * The volumes of one pool whose data is being destroyed. Whoever waits may leave: the work goes on, and is tried again
 * when it fails, until its volume is clean and gone, or is no longer the one that was marked. Nothing is kept here that the volume's own tags do not tell, so
 * after a crash the pool adds what it finds marked.
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

  /** Does nothing for a volume that is being erased already. */
  add(work: ErasureWork): void {
    if (this.#entries.has(work.id)) return;
    const { id, cleanBytes } = work;
    this.#entries.set(id, { work, cleanBytes, recordedBytes: cleanBytes, attempt: newAttempt() });
    this.#queue.add(id);
  }

  /** Resolves when the volume is clean and gone, at once if it is not known here; rejects as the attempt under way does. */
  async join(id: VolumeId, signal: AbortSignal): Promise<void> {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#queue.add(id); // one that has failed need not wait any longer: somebody asks
    await abortable(entry.attempt.promise, signal);
  }

  /** What is not done by then is found again by its tags. */
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
      if (error instanceof ErasureCalledOff) return this.#callOff(entry, error);
      entry.attempt = newAttempt();
      attempt.reject(error);
      throw error; // to be tried again
    }
    this.#entries.delete(id);
    attempt.resolve();
    return Requeue.never;
  }

  /** If the volume is marked again, its pool adds it again. */
  #callOff({ work, attempt }: Entry, reason: ErasureCalledOff): Requeue {
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
  attempt.promise.catch(() => undefined); // nobody need wait for it; the queue logs what goes wrong
  return attempt;
}
