import {
  bytesOf,
  type LogicalVolume,
  type LogicalVolumeStatus,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { resizeRequestedAnnotation } from '../../api/names.ts';
import { codeOf, type ErrorCode, messageOf } from '../../base/errors.ts';
import type { Aside } from '../../base/keyed-queue.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import { toQuantity } from '../../base/quantity.ts';
import type { Volume } from '../../engine/pool.ts';
import type { Pools } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Change } from '../../kube/object-cache.ts';
import { numberOf } from '../../rpc/status.ts';
import { classOf, mustHold, poolsToClear } from '../../volumes/pool-holding.ts';
import { makeVolume } from './logical-volume-maker.ts';
import { LogicalVolumeWriter } from './logical-volume-writer.ts';
import { nextStep } from './next-step.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The LogicalVolumes of this node, and no others. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list'>;
  readonly pools: Pick<Pools, 'get' | 'all' | 'unavailable'>;
  readonly log: Log;
}

/** Failures of the moment: nobody needs to be told, the next try may succeed. */
const passing: ReadonlySet<ErrorCode> = new Set(['Aborted', 'Cancelled', 'DeadlineExceeded', 'Unavailable']);

/**
 * Makes, grows and removes volumes as this node's LogicalVolumes ask: one pool operation and one PATCH each. The volume
 * is named by the object's uid, so a repeated step finds what an earlier one has done.
 */
export class LogicalVolumeReconciler {
  readonly #writer: LogicalVolumeWriter;
  readonly #volumes: Collaborators['volumes'];
  readonly #pools: Collaborators['pools'];
  readonly #log: Log;

  constructor({ client, volumes, pools, log }: Collaborators) {
    this.#writer = new LogicalVolumeWriter(client);
    this.#volumes = volumes;
    this.#pools = pools;
    this.#log = log;
  }

  /** Our own writes, which touch neither spec nor deletion nor the request to grow, need no second look. */
  static needsLook(change: Change<StoredLogicalVolume>): boolean {
    if (change.kind === 'deleted') return false;
    const { object, previous } = change;
    return (
      object.metadata.generation !== previous?.metadata.generation || resizeRequest(object) !== resizeRequest(previous)
    );
  }

  /** What could not be done and may be now, as a pool has changed: there is room, or the last snapshot of a volume has gone. */
  worthAnotherTry(): readonly string[] {
    const wasRefused = (volume: StoredLogicalVolume) =>
      Boolean(volume.status?.code) && ['grow', 'remove'].includes(nextStep(volume));
    return this.#volumes
      .list()
      .filter(wasRefused)
      .map(({ metadata }) => metadata.name);
  }

  /** What pools do is waited for aside: a removal can erase, and a creation copy, for hours. */
  async reconcile(name: string, signal: AbortSignal, aside: Aside): Promise<Requeue> {
    const volume = this.#volumes.get(name);
    if (!volume) return Requeue.never; // deleted since it was queued
    switch (nextStep(volume)) {
      case 'create':
        await this.#create(volume, signal, aside);
        break;
      case 'measure':
        await this.#measure(volume, signal, aside);
        break;
      case 'grow':
        await this.#grow(volume, signal, aside);
        break;
      case 'settle':
        await this.#writer.answer(volume, { ...volume.status, code: 0, message: '' }, signal);
        break;
      case 'remove':
        await this.#remove(volume, signal, aside);
        break;
      case 'nothing':
        break;
    }
    return Requeue.never;
  }

  async #create(wish: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const volume = await this.#writer.protect(wish, signal);
    const ground = { pools: this.#pools, volumes: this.#volumes };
    const made = await this.#attempt(volume, 'volume made', () => aside(makeVolume(volume, ground, signal)));
    if (made.kind === 'failed') return this.#writer.refuse(volume, made.failure, signal);
    await this.#writer.answer(volume, { volumeID: made.volume.id, ...sizeAnswer(made.volume) }, signal);
  }

  async #measure(volume: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const found = mustHold(this.#pools, volumeIdOf(volume)).volume;
    const status = { ...volume.status, currentSize: toQuantity(found.sizeBytes) };
    await this.#writer.answer(volume, status, signal);
    const measured = { ...volume, status };
    if (nextStep(measured) === 'grow') await this.#grow(measured, signal, aside);
  }

  async #grow(volume: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const id = volumeIdOf(volume);
    const grown = await this.#attempt(volume, 'volume grown', () =>
      aside(mustHold(this.#pools, id).pool.grow(id, bytesOf(volume.spec.size), signal)),
    );
    const request = resizeRequest(volume);
    const isAnswered = volume.status?.answeredResize === request && Boolean(volume.status?.code);
    // It is tried whenever a pool changes; that it still does not fit is no news to whoever has asked.
    if (grown.kind === 'failed' && isAnswered) return;
    const answer = grown.kind === 'done' ? sizeAnswer(grown.volume) : grown.failure;
    const status = { ...volume.status, ...answer, ...(request !== undefined && { answeredResize: request }) };
    await this.#writer.answer(volume, status, signal);
  }

  async #remove(volume: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const { metadata, status } = volume;
    const id = volumeIdOf(volume);
    try {
      const pools = poolsToClear(this.#pools, volume);
      const [holder] = pools;
      if (holder?.get(id) && holder.name !== classOf(volume)) await this.#writer.remember(volume, holder.name, signal);
      for (const pool of pools) await aside(pool.remove(id, signal));
    } catch (error) {
      const { answeredResize, ...known } = status ?? {}; // an answer to a growth is none to the removal
      const isNews = messageOf(error) !== known.message || answeredResize !== undefined;
      if (isNews && !isPassing(error)) await this.#writer.answer(volume, { ...known, ...failureFrom(error) }, signal);
      throw error; // it must go in the end, so it is tried again
    }
    await this.#writer.letGo(volume, signal);
    this.#log.info({ name: metadata.name, volume: id }, 'volume removed');
  }

  /** What came of it: the volume, or why not. What passes by itself is thrown, to be tried again. */
  async #attempt(object: StoredLogicalVolume, what: string, work: () => Promise<Volume>): Promise<Outcome> {
    const { name } = object.metadata;
    try {
      const volume = await work();
      this.#log.info({ name, volume: volume.id, sizeBytes: String(volume.sizeBytes) }, what);
      return { kind: 'done', volume };
    } catch (error) {
      if (isPassing(error)) throw error;
      this.#log.warn({ name, code: codeOf(error) }, messageOf(error));
      return { kind: 'failed', failure: failureFrom(error) };
    }
  }
}

type Outcome =
  | { readonly kind: 'done'; readonly volume: Volume }
  | { readonly kind: 'failed'; readonly failure: LogicalVolumeStatus };

function sizeAnswer({ sizeBytes }: Volume): LogicalVolumeStatus {
  return { currentSize: toQuantity(sizeBytes), code: 0, message: '' };
}

/** Tells one request to grow from the next. */
function resizeRequest(volume: StoredLogicalVolume | undefined): string | undefined {
  return volume?.metadata.annotations?.[resizeRequestedAnnotation];
}

function isPassing(error: unknown): boolean {
  return passing.has(codeOf(error));
}

function failureFrom(error: unknown): LogicalVolumeStatus {
  return { code: numberOf(codeOf(error)), message: messageOf(error) };
}
