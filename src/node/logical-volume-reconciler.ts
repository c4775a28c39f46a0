import { codeOf, type ErrorCode, MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { parseQuantity, toQuantity } from '../base/quantity.ts';
import { Requeue } from '../base/requeue.ts';
import type { JsonPatchStep, KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import type { Change } from '../kube/object-cache.ts';
import {
  type LogicalVolume,
  type LogicalVolumeSpec,
  type LogicalVolumeStatus,
  logicalVolumes,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../logical-volume/logical-volume.ts';
import { claimName, heldByAnnotation, logicalVolume, parameters, volumeTag } from '../names.ts';
import { numberOf } from '../rpc/status.ts';
import type { Pool } from '../storage/pool.ts';
import { DeviceClassNotFound, DeviceClassUnavailable, type Pools } from '../storage/pools.ts';
import { nextStep } from './next-step.ts';
import { HolderNotKnown, poolHolding, poolToRemoveFrom, VolumeNotHere } from './pool-holding.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The LogicalVolumes of this node, and no others. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get'>;
  readonly pools: Pick<Pools, 'get' | 'all' | 'unavailable'>;
  readonly log: Log;
}

/** Failures of the moment: nobody needs to be told, the next try may succeed. */
const passing: ReadonlySet<ErrorCode> = new Set(['Aborted', 'Cancelled', 'DeadlineExceeded', 'Unavailable']);

/**
 * Makes and removes volumes as this node's LogicalVolumes ask: one pool operation and one PATCH each. The volume is
 * named by the object's uid, so a repeated step finds what an earlier one has made.
 */
export class LogicalVolumeReconciler {
  readonly #client: Collaborators['client'];
  readonly #volumes: Collaborators['volumes'];
  readonly #pools: Collaborators['pools'];
  readonly #log: Log;

  constructor({ client, volumes, pools, log }: Collaborators) {
    this.#client = client;
    this.#volumes = volumes;
    this.#pools = pools;
    this.#log = log;
  }

  /** Our own writes, which touch neither spec nor deletion, need no second look. */
  static needsLook(change: Change<StoredLogicalVolume>): boolean {
    if (change.kind === 'deleted') return false;
    return change.object.metadata.generation !== change.previous?.metadata.generation;
  }

  async reconcile(name: string, signal: AbortSignal): Promise<Requeue> {
    const volume = this.#volumes.get(name);
    if (!volume) return Requeue.never; // deleted since it was queued
    switch (nextStep(volume)) {
      case 'create':
        await this.#create(volume, signal);
        break;
      case 'measure':
        await this.#measure(volume, signal);
        break;
      case 'remove':
        await this.#remove(volume, signal);
        break;
      case 'nothing':
        break;
    }
    return Requeue.never;
  }

  async #create(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    await this.#protect(volume, signal);
    await this.#answer(volume, await this.#cut(volume, signal), signal);
  }

  /** What to answer: the volume, or why it could not be made. */
  async #cut({ metadata, spec }: StoredLogicalVolume, signal: AbortSignal): Promise<LogicalVolumeStatus> {
    const { name, uid, annotations } = metadata;
    const claim = annotations?.[claimName];
    try {
      refuseWhatIsNotOffered(spec);
      const wanted = {
        id: uid,
        sizeBytes: parseQuantity(spec.size),
        tags: [`${volumeTag}=${name}`, ...(claim ? [`${claimName}=${claim}`] : [])],
      };
      const made = await this.#pools.get(spec.deviceClass ?? '').create(wanted, signal);
      this.#log.info({ name, volume: made.id, sizeBytes: String(made.sizeBytes) }, 'volume made');
      return { volumeID: made.id, currentSize: toQuantity(made.sizeBytes), code: 0, message: '' };
    } catch (error) {
      if (isPassing(error)) throw error;
      this.#log.warn({ name, code: codeOf(error) }, messageOf(error));
      return failure(error);
    }
  }

  async #measure(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const id = volumeIdOf(volume);
    const found = poolHolding(this.#pools, id)?.get(id);
    if (!found) throw new VolumeNotHere(id);
    await this.#answer(volume, { ...volume.status, currentSize: toQuantity(found.sizeBytes) }, signal);
  }

  async #remove(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { metadata, status } = volume;
    try {
      await this.#clear(volume, signal);
    } catch (error) {
      const isNews = !isPassing(error) && messageOf(error) !== status?.message;
      if (isNews) await this.#answer(volume, { ...status, ...failure(error) }, signal);
      throw error; // it must go in the end, so it is tried again
    }
    await this.#letGo(volume, signal);
    this.#log.info({ name: metadata.name, volume: volumeIdOf(volume) }, 'volume removed');
  }

  /** Returns when the volume is certainly on no disk. */
  async #clear(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const id = volumeIdOf(volume);
    const holder = poolToRemoveFrom(this.#pools, id);
    if (holder) await this.#remember(volume, holder, signal);
    for (const pool of holder ? [holder] : this.#poolsThatMayHold(volume)) await pool.remove(id, signal);
  }

  /**
   * It may have been made before a crash, and not be known yet. What was certainly made is gone only if the class that
   * had it says so, and not if today's default does; only where its class never was, nothing can be.
   */
  #poolsThatMayHold(volume: StoredLogicalVolume): readonly Pool[] {
    const { metadata, status } = volume;
    const deviceClass = classOf(volume);
    if (deviceClass === '' && status?.volumeID) throw new HolderNotKnown(metadata.name, status.volumeID);
    if (deviceClass === '') return this.#allPools();
    try {
      return [this.#pools.get(deviceClass)];
    } catch (error) {
      if (error instanceof DeviceClassNotFound && !status?.volumeID) return [];
      throw error;
    }
  }

  /** The default class may have been another one then, so each must be asked. */
  #allPools(): readonly Pool[] {
    for (const [name, error] of this.#pools.unavailable()) throw new DeviceClassUnavailable(name, error);
    return this.#pools.all();
  }

  /** So that after a crash it is known which class must say that the volume is gone. */
  async #remember(volume: StoredLogicalVolume, holder: Pool, signal: AbortSignal): Promise<void> {
    if (classOf(volume) === holder.name) return;
    const { name, uid } = volume.metadata;
    const body = { metadata: { uid, annotations: { [heldByAnnotation]: holder.name } } };
    await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
  }

  /** An object that came without the finalizer could vanish, and leave its volume to nobody. */
  async #protect({ metadata }: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { resourceVersion, finalizers = [] } = metadata;
    if (finalizers.includes(logicalVolume.finalizer)) return;
    const body = { metadata: { resourceVersion, finalizers: [...finalizers, logicalVolume.finalizer] } };
    await this.#client.patch(logicalVolumes, metadata.name, { type: 'merge', body }, { signal });
  }

  async #letGo(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, finalizers = [] } = volume.metadata;
    const path = `/metadata/finalizers/${finalizers.indexOf(logicalVolume.finalizer)}`;
    const body = [
      sameObject(volume),
      { op: 'test', path, value: logicalVolume.finalizer },
      { op: 'remove', path },
    ] as const;
    await this.#client.patch(logicalVolumes, name, { type: 'json', body }, { signal });
  }

  async #answer(volume: StoredLogicalVolume, status: LogicalVolumeStatus, signal: AbortSignal): Promise<void> {
    const body = [sameObject(volume), { op: 'add', path: '/status', value: status }] as const;
    const options = { subresource: 'status', signal } as const;
    await this.#client.patch(logicalVolumes, volume.metadata.name, { type: 'json', body }, options);
  }
}

/** Where its volume is, as far as the object tells; empty if it was made in the default class of its time. */
function classOf({ metadata, spec }: StoredLogicalVolume): string {
  return metadata.annotations?.[heldByAnnotation] ?? spec.deviceClass ?? '';
}

/** Keeps a write from an object that took the name in the meantime. */
function sameObject({ metadata }: StoredLogicalVolume): JsonPatchStep {
  return { op: 'test', path: '/metadata/uid', value: metadata.uid };
}

function isPassing(error: unknown): boolean {
  return passing.has(codeOf(error));
}

function failure(error: unknown): LogicalVolumeStatus {
  return { code: numberOf(codeOf(error)), message: messageOf(error) };
}

/** An empty volume instead of a copy, or plain instead of mirrored, would be worse than none. */
function refuseWhatIsNotOffered({ source, lvcreateOptionClass }: LogicalVolumeSpec): void {
  if (source) throw new NotOffered(`copies, here of ${source}, are not offered; make an empty volume`);
  if (lvcreateOptionClass) {
    throw new NotOffered(
      `lvcreate option class ${lvcreateOptionClass} is not offered; ` +
        `remove ${parameters.lvcreateOptionClass} from the StorageClass`,
    );
  }
}

export class NotOffered extends MoorageError {
  readonly code = 'Unimplemented';
}
