import { isDeepStrictEqual } from 'node:util';
import {
  bytesOf,
  deleting,
  failureOf,
  type LogicalVolume,
  type LogicalVolumeSpec,
  type LogicalVolumeStatus,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import {
  adoptAnnotation,
  erasedAnnotation,
  heldByAnnotation,
  logicalVolume,
  pendingDeletionAnnotation,
  resizeRequestedAnnotation,
} from '../../api/names.ts';
import { codeOf, type ErrorCode, messageOf } from '../../base/errors.ts';
import type { Aside } from '../../base/keyed-queue.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import { toQuantity } from '../../base/quantity.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { Removal, Volume } from '../../engine/pool.ts';
import type { Pools } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Change } from '../../kube/object-cache.ts';
import { numberOf } from '../../rpc/status.ts';
import { classOf, mustHold, poolsToClear } from '../../volumes/pool-holding.ts';
import { adoptVolume } from './adopt-volume.ts';
import { createVolume, ownerTags } from './create-volume.ts';
import { LogicalVolumeWriter } from './logical-volume-writer.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'onChange'>;
  readonly pools: Pick<Pools, 'get' | 'all' | 'unavailable' | 'onChange'>;
  readonly log: Log;
}

/** Limits concurrent writes to the API server. Pools order their own operations, which run aside. */
const volumesAtOnce = 64;
/** A burst of changes causes one retry. */
const burstMs = 500;

/** Temporary failures: they are retried and not reported. */
const passing: ReadonlySet<ErrorCode> = new Set(['Aborted', 'Cancelled', 'DeadlineExceeded', 'Unavailable']);

/** The work for this node's LogicalVolumes: different volumes in parallel, each volume step by step. */
export function volumeWork(collaborators: Collaborators): Work {
  const { volumes, pools } = collaborators;
  const reconciler = new LogicalVolumeReconciler(collaborators);
  let seen: unknown;
  const watch = (queue: WorkQueue) => [
    volumes.onChange((change) => {
      if (LogicalVolumeReconciler.needsLook(change)) queue.add(change.key);
    }),
    pools.onChange(() => {
      const refused = reconciler.worthAnotherTry();
      if (refused.length === 0) return;
      // After a failed attempt the pool reads its disks and reports a change; that must not cause a retry.
      const now = stateOf(pools);
      if (!isDeepStrictEqual(now, seen)) for (const name of refused) queue.addAfter(name, burstMs);
      seen = now;
    }),
  ];
  return {
    name: 'logicalvolumes',
    watch,
    reconcile: (name, signal, aside) => reconciler.reconcile(name, signal, aside),
    concurrency: volumesAtOnce,
  };
}

/** What must change before a failed growth or removal can succeed. */
export function stateOf(pools: Pick<Pools, 'all'>): unknown {
  return pools.all().map((pool) => [pool.name, pool.capacity().freeBytes, pool.list().length]);
}

/** The next step of a node for one of its LogicalVolumes. */
export type Step = 'create' | 'adopt' | 'measure' | 'grow' | 'settle' | 'remove' | 'nothing';

export function nextStep(volume: StoredLogicalVolume): Step {
  const { annotations, finalizers = [] } = volume.metadata;
  // The node was removed from the cluster and the claim was released: the data on the disks must not be touched.
  if (annotations?.[pendingDeletionAnnotation] === 'true') return 'nothing';
  // Without our finalizer, the volume was already removed, or an administrator took it over.
  if (deleting(volume)) return finalizers.includes(logicalVolume.finalizer) ? 'remove' : 'nothing';
  // The volume was created and may contain data, so it is never re-created, whatever its status lacks.
  if (volume.status?.volumeID) return ofCreated(volume.spec, volume.status);
  // The controller reports the failure and deletes the object; a retry here would create a volume without its knowledge.
  if (failureOf(volume)) return 'nothing';
  return annotations?.[adoptAnnotation] ? 'adopt' : 'create';
}

function ofCreated({ size }: LogicalVolumeSpec, { currentSize, code = 0 }: LogicalVolumeStatus): Step {
  if (!currentSize) return 'measure';
  if (bytesOf(size) > bytesOf(currentSize)) return 'grow';
  return code === 0 ? 'nothing' : 'settle'; // a request to grow failed and was withdrawn
}

/**
 * Creates, grows and removes the volumes of this node's LogicalVolumes: one pool operation and one PATCH each. The volume
 * is named by the object's uid, unless it was adopted, so a retried step finds what an earlier one did.
 */
class LogicalVolumeReconciler {
  readonly #writer: LogicalVolumeWriter;
  readonly #volumes: Collaborators['volumes'];
  readonly #pools: Collaborators['pools'];
  readonly #log: Log;
  /** What this agent has recorded as holders, by the uids of the objects: the watch may not show it yet. */
  readonly #recordedHolders = new Map<string, string>();

  constructor({ client, volumes, pools, log }: Collaborators) {
    this.#writer = new LogicalVolumeWriter(client);
    this.#volumes = volumes;
    this.#pools = pools;
    this.#log = log;
  }

  /** Ignores our own writes, which change neither spec nor deletion nor the request to grow. */
  static needsLook(change: Change<StoredLogicalVolume>): boolean {
    if (change.kind === 'deleted') return false;
    const { object, previous } = change;
    return (
      object.metadata.generation !== previous?.metadata.generation || growthRequest(object) !== growthRequest(previous)
    );
  }

  /** Failed growths and removals, which may succeed after a pool changed: space was freed, or a last snapshot was removed. */
  worthAnotherTry(): readonly string[] {
    const wasRefused = (volume: StoredLogicalVolume) =>
      Boolean(volume.status?.code) && ['grow', 'remove'].includes(nextStep(volume));
    return this.#volumes
      .list()
      .filter(wasRefused)
      .map(({ metadata }) => metadata.name);
  }

  /** Pool operations run aside: an erasure or a copy can take hours. */
  async reconcile(name: string, signal: AbortSignal, aside: Aside): Promise<Requeue> {
    const volume = this.#volumes.get(name);
    if (!volume) return Requeue.never; // deleted after it was queued
    switch (nextStep(volume)) {
      case 'create':
        await this.#create(volume, signal, aside);
        break;
      case 'adopt':
        await this.#adopt(volume, signal, aside);
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

  async #create(requested: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const volume = await this.#writer.protect(requested, signal);
    const collaborators = { pools: this.#pools, volumes: this.#volumes };
    const created = await this.#attempt(volume, 'volume created', () =>
      aside(createVolume(volume, collaborators, signal)),
    );
    if (created.kind === 'failed') return this.#writer.refuse(volume, created.failure, signal);
    await this.#writer.answer(volume, { volumeID: created.volume.id, ...sizeAnswer(created.volume) }, signal);
  }

  async #adopt(object: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const volume = await this.#writer.protect(object, signal);
    const surroundings = { pools: this.#pools, volumes: this.#volumes };
    const adopted = await this.#attempt(volume, 'volume adopted', () =>
      aside(adoptVolume(volume, ownerTags(volume), surroundings, signal)),
    );
    if (adopted.kind === 'failed') return this.#writer.refuse(volume, adopted.failure, signal);
    await this.#writer.answer(volume, { volumeID: adopted.volume.id, ...sizeAnswer(adopted.volume) }, signal);
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
    const request = growthRequest(volume);
    const isAnswered = volume.status?.answeredResize === request && Boolean(volume.status?.code);
    // The growth is retried whenever a pool changes; the same failure is not reported twice.
    if (grown.kind === 'failed' && isAnswered) return;
    const answer = grown.kind === 'done' ? sizeAnswer(grown.volume) : grown.failure;
    const status = { ...volume.status, ...answer, ...(request !== undefined && { answeredResize: request }) };
    await this.#writer.answer(volume, status, signal);
  }

  async #remove(watched: StoredLogicalVolume, signal: AbortSignal, aside: Aside): Promise<void> {
    const volume = this.#withRecordedHolder(watched);
    const { metadata, status } = volume;
    const id = volumeIdOf(volume);
    try {
      const pools = poolsToClear(this.#pools, volume);
      const [holder] = pools;
      // After a crash it must be known which class has to confirm the removal.
      if (holder?.get(id) && holder.name !== classOf(volume)) {
        await this.#writer.annotate(volume, { [heldByAnnotation]: holder.name }, signal);
        this.#recordedHolders.set(metadata.uid, holder.name);
      }
      const removals: Removal[] = [];
      for (const pool of pools) removals.push(await aside(pool.remove(id, signal)));
      if (removals.includes('erased')) await this.#recordErasure(volume, signal);
    } catch (error) {
      const { answeredResize, ...known } = status ?? {}; // an answer to a growth does not answer the removal
      const isNews = messageOf(error) !== known.message || answeredResize !== undefined;
      if (isNews && !isPassing(error)) await this.#writer.answer(volume, { ...known, ...failureFrom(error) }, signal);
      throw error; // a removal is retried until it succeeds
    }
    await this.#writer.removeFinalizer(volume, signal);
    this.#recordedHolders.delete(metadata.uid);
    this.#log.info({ name: metadata.name, volume: id }, 'volume removed');
  }

  #withRecordedHolder(volume: StoredLogicalVolume): StoredLogicalVolume {
    const { metadata } = volume;
    const holder = this.#recordedHolders.get(metadata.uid);
    if (holder === undefined) return volume;
    return {
      ...volume,
      metadata: { ...metadata, annotations: { ...metadata.annotations, [heldByAnnotation]: holder } },
    };
  }

  /** For the controller, which sees no change that is made together with the removal of the finalizer. */
  async #recordErasure(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    try {
      await this.#writer.annotate(volume, { [erasedAnnotation]: 'true' }, signal);
    } catch (error) {
      this.#log.warn({ name: volume.metadata.name }, `cannot record the erasure: ${messageOf(error)}`); // the volume is gone anyway
    }
  }

  /** The volume, or why it failed. Temporary failures are thrown, so that they are retried. */
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

/** Distinguishes one request to grow from the next. */
function growthRequest(volume: StoredLogicalVolume | undefined): string | undefined {
  return volume?.metadata.annotations?.[resizeRequestedAnnotation];
}

export function isPassing(error: unknown): boolean {
  return passing.has(codeOf(error));
}

function failureFrom(error: unknown): LogicalVolumeStatus {
  return { code: numberOf(codeOf(error)), message: messageOf(error) };
}
