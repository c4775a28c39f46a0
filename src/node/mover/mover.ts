import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '../../base/clock.ts';
import { MoorageError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { ChangeTracking, RoundKind } from '../../engine/changes/change-tracking.ts';
import { type Position, positionIn, positionTag } from '../../engine/changes/position.ts';
import { VolumeNotFound } from '../../engine/errors.ts';
import { contentTags } from '../../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../../engine/pool.ts';
import type { Certificate } from '../../http/self-signed.ts';
import type { AgentMethods, MoverThreadMethods } from './mover-thread.ts';
import type { PullRequest } from './target-end.ts';
import { ThreadCalls } from './thread-calls.ts';

/** A thread costs memory, and starting one costs time at the end of a move. */
const idleMs = 60_000;
/** Each record changes the metadata of the pool. */
const recordEveryMs = 10_000;

export interface MoverOptions {
  /** Where this node serves the volumes that it offers. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface OfferRequest {
  readonly tracking: ChangeTracking;
  /** The tags of the volume now. */
  readonly tags: () => readonly string[];
  readonly own: Certificate;
  readonly peerCertificate: string;
}

/** An offered volume. When it is disposed of, nothing reads the volume any more. */
export interface Offer extends AsyncDisposable {
  readonly port: number;
}

export interface RoundOptions {
  readonly moveUid: string;
  readonly host: string;
  readonly port: number;
  readonly own: Certificate;
  readonly peerCertificate: string;
  readonly kind: RoundKind;
  readonly pool: Pool;
  readonly volumeId: VolumeId;
  readonly bytesPerSecond?: number;
  readonly onProgress?: (progress: MoveProgress) => void;
}

/** Of one round. */
export interface MoveProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface RoundResult {
  readonly checkpoint: string;
  /** What may have changed, and how much of that was sent: the rest was zero or the same. */
  readonly changedBytes: number;
  readonly sentBytes: number;
  /** Of the ranges of the round and their hashes, at both ends. */
  readonly sha256: string;
  readonly durationMs: number;
}

/**
 * Copies volumes between this node and others: serves those that it offers, and pulls rounds of others. Keys are made for
 * one move, and each end accepts only the other's certificate.
 */
export class Mover {
  readonly #options: MoverOptions;
  readonly #offers = new Map<string, OfferRequest>();
  readonly #pulls = new Map<number, Pulling>();
  #thread: Promise<MoverThread> | undefined;
  #pullIds = 0;
  #idle: Timer | undefined;

  constructor(options: MoverOptions) {
    this.#options = options;
  }

  async offer(moveUid: string, request: OfferRequest): Promise<Offer> {
    this.#offers.set(moveUid, request);
    const { port } = await this.#offerNow(moveUid, request);
    return {
      port,
      [Symbol.asyncDispose]: async () => {
        if (this.#offers.get(moveUid) !== request) return;
        this.#offers.delete(moveUid);
        await (await this.#started()).calls.call('withdraw', { moveUid });
        this.#rest();
      },
    };
  }

  /** Copies one round into the volume. Repeated after a failure, it goes on where it was. */
  async pull(options: RoundOptions, signal: AbortSignal): Promise<RoundResult> {
    const { clock } = this.#options;
    const startedMs = clock.monotonic();
    const pullId = ++this.#pullIds;
    const pulling = new Pulling(options, clock, signal);
    this.#pulls.set(pullId, pulling);
    try {
      const { calls } = await this.#started();
      const result = await calls.call('pull', { pullId, ...pulling.request() }, signal);
      await pulling.record({ complete: result.checkpoint });
      return { ...result, durationMs: clock.monotonic() - startedMs };
    } finally {
      this.#pulls.delete(pullId);
      this.#rest();
    }
  }

  async stop(): Promise<void> {
    this.#idle?.cancel();
    this.#offers.clear();
    const thread = this.#thread;
    this.#thread = undefined;
    await (await thread)?.worker.terminate();
  }

  async #offerNow(moveUid: string, { own, peerCertificate }: OfferRequest): Promise<{ readonly port: number }> {
    const { calls } = await this.#started();
    return calls.call('offer', { moveUid, port: this.#options.port, own, peerCertificate });
  }

  async #started(): Promise<MoverThread> {
    this.#idle?.cancel();
    this.#thread ??= this.#start().catch((error: unknown) => {
      this.#thread = undefined;
      throw new MoverLost(error);
    });
    return this.#thread;
  }

  async #start(): Promise<MoverThread> {
    const { threadName, threadUrl } = await import('./mover-thread.ts');
    const worker = new Worker(threadUrl, { workerData: threadName, name: threadName });
    const calls = new ThreadCalls<MoverThreadMethods>(worker, this.#methods());
    const thread = { worker, calls };
    worker.on('error', (error) => calls.close(new MoverLost(error)));
    worker.once('exit', () => void this.#lost(thread));
    await once(worker, 'online');
    return thread;
  }

  /** What it was doing is retried by those who wait for it. */
  async #lost(thread: MoverThread): Promise<void> {
    thread.calls.close(new MoverLost());
    if ((await this.#thread) !== thread) return; // it was stopped
    this.#thread = undefined;
    for (const [moveUid, request] of this.#offers) {
      this.#offerNow(moveUid, request).catch((error: unknown) => {
        this.#options.log.error({ err: error, move: moveUid }, 'cannot offer a volume again after the mover was lost');
      });
    }
  }

  #methods(): AgentMethods {
    return {
      round: async ({ moveUid, kind, position }, signal) => {
        const offer = this.#offers.get(moveUid);
        if (!offer) throw new MoverLost();
        const { blocks, hashes, sizeBytes, ...round } = await offer.tracking.round(kind, position, signal);
        return {
          ...round,
          sizeBytes: Number(sizeBytes),
          blockStates: blocks.states,
          ...(hashes && { hashTable: hashes.table }),
          tags: contentTags(offer.tags()),
        };
      },
      note: async ({ moveUid, message }) => this.#options.log.info({ move: moveUid }, message),
      begin: async ({ pullId, ...begun }) => this.#pulls.get(pullId)?.begin(begun),
      reached: async ({ pullId, ...reached }) => this.#pulls.get(pullId)?.reached(reached),
    };
  }

  #rest(): void {
    this.#idle?.cancel();
    if (this.#offers.size + this.#pulls.size > 0) return;
    this.#idle = this.#options.clock.setTimer(() => void this.stop(), idleMs);
  }
}

interface MoverThread {
  readonly worker: Worker;
  readonly calls: ThreadCalls<MoverThreadMethods>;
}

/** The agent's side of a round that is being pulled. */
class Pulling {
  readonly #options: RoundOptions;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  #position: Position = {};
  #totalBytes = 0;
  #recordedMs = 0;

  constructor(options: RoundOptions, clock: Clock, signal: AbortSignal) {
    this.#options = options;
    this.#clock = clock;
    this.#signal = signal;
  }

  request(): Omit<PullRequest, 'pullId'> {
    const { moveUid, host, port, own, peerCertificate, kind, pool, bytesPerSecond } = this.#options;
    const volume = this.#volume();
    const type = pool.details()?.type;
    return {
      ...{ moveUid, host, port, own, peerCertificate, kind, position: positionIn(volume.tags) },
      ...(bytesPerSecond && { bytesPerSecond }),
      device: {
        path: volume.devicePath,
        sizeBytes: Number(volume.sizeBytes),
        isSparse: type === 'thin' || type === 'file',
        isNewZeroed: type === 'file' || (type === 'thin' && zeroesNewBlocks(volume)),
      },
    };
  }

  async begin(begun: { position: Position; tags: readonly string[]; changedBytes: number }): Promise<void> {
    this.#totalBytes = begun.changedBytes;
    await this.record(begun.position, begun.tags);
  }

  async reached({ offset, doneBytes }: { readonly offset: number; readonly doneBytes: number }): Promise<void> {
    this.#options.onProgress?.({ doneBytes, totalBytes: this.#totalBytes });
    const { partial } = this.#position;
    if (partial && this.#clock.monotonic() - this.#recordedMs > recordEveryMs) {
      await this.record({ ...this.#position, partial: { ...partial, offset } });
    }
  }

  async record(position: Position, tags: readonly string[] = []): Promise<void> {
    const { pool, volumeId } = this.#options;
    this.#position = position;
    this.#recordedMs = this.#clock.monotonic();
    await pool.addTags(volumeId, [positionTag(position), ...tags], this.#signal);
  }

  #volume(): Volume {
    const { pool, volumeId } = this.#options;
    const volume = pool.get(volumeId);
    if (!volume) throw new VolumeNotFound(pool.name, volumeId);
    return volume;
  }
}

/** Otherwise a thin pool leaves old data in the rest of a block that is written in part. */
function zeroesNewBlocks({ attr }: Volume): boolean {
  return attr.charAt(7) === 'z';
}

/** The thread that copies ended. */
class MoverLost extends MoorageError {
  readonly code = 'Unavailable';

  constructor(cause?: unknown) {
    super('the thread that copies volumes ended; retry', { cause });
  }
}
