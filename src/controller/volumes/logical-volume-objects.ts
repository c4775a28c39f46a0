import {
  deleting,
  type Failure,
  failureOf,
  isSnapshot,
  type LogicalVolume,
  logicalVolumes,
  recordedSourceOf,
  removalFailureOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import type { MoorageError } from '../../base/errors.ts';
import type { ContentSource } from '../../csi/controller/volume-store.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { numberOf } from '../../rpc/status.ts';
import {
  AmbiguousVolume,
  DeviceClassNotOnNode,
  NodeRefused,
  VolumeNotCreated,
  VolumeNotRemoved,
  WatchBehind,
} from './errors.ts';

export interface LogicalVolumeCollaborators {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'patch' | 'delete'>;
  /** The LogicalVolumes of all nodes. */
  readonly watched: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'until' | 'whenSynced'>;
}

export type RequestedVolume = LogicalVolume & { readonly metadata: { readonly name: string } };

/**
 * How the controller and the nodes communicate: an object holds the request, its node writes the answer into it, and the
 * watch reports it. A retried call, also on another replica or after a crash, finds the request of the first one.
 */
export class LogicalVolumeObjects {
  readonly #client: LogicalVolumeCollaborators['client'];
  readonly #watched: LogicalVolumeCollaborators['watched'];

  constructor({ client, watched }: LogicalVolumeCollaborators) {
    this.#client = client;
    this.#watched = watched;
  }

  /** Returns when the node has created it. `refuseIfDifferent` throws if an existing object differs from the request. */
  async create(
    request: RequestedVolume,
    refuseIfDifferent: (existing: StoredLogicalVolume) => void,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume> {
    for (;;) {
      const requested = await this.#request(request, refuseIfDifferent, signal);
      const answer = await this.#untilAnswered(requested, signal);
      const failure = failureOf(answer);
      // If it stayed, every retry would fail, although the node may have free space by then.
      if (failure && (await this.#deleteRefused(answer, signal))) throw creationRefused(answer, failure);
      if (!failure && !deleting(answer)) return answer;
    }
  }

  /**
   * A volume that is not in our cache may be newer than the cache; only the API server knows. An ID
   * that two objects share is an error: reading, growing or removing the wrong one could destroy data.
   */
  async find(id: string, signal: AbortSignal): Promise<StoredLogicalVolume | undefined> {
    if (id === '') return undefined; // it would match all that are not created yet
    const cached = onlyOne(
      id,
      this.#watched.list().filter((volume) => volumeIdOf(volume) === id),
    );
    if (cached) return cached;
    const fieldSelector = `status.volumeID=${id.replaceAll(/[\\,=]/g, '\\$&')}`;
    const { items } = await this.#client.list(logicalVolumes, { fieldSelector, signal });
    const found = onlyOne(id, items);
    if (found) await this.#untilWatched(found, signal);
    return found;
  }

  /** Those that the nodes have created. */
  async list(signal: AbortSignal): Promise<readonly StoredLogicalVolume[]> {
    await this.#watched.whenSynced(signal);
    return this.#watched.list().filter(({ status }) => status?.volumeID);
  }

  /** Undefined if it is not a copy, or if it is a TopoLVM copy whose source is gone. */
  sourceOf(volume: StoredLogicalVolume): ContentSource | undefined {
    const recorded = recordedSourceOf(volume);
    if (recorded || !volume.spec.source) return recorded;
    const source = this.#watched.get(objectName(volume.spec.source));
    return source && { kind: isSnapshot(source) ? 'snapshot' : 'volume', id: volumeIdOf(source) };
  }

  /** Returns the patched object, undefined if it is gone. */
  async change(
    { metadata: { name, uid } }: StoredLogicalVolume,
    change: { readonly annotations: Readonly<Record<string, string | null>>; readonly size?: string },
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume | undefined> {
    const { annotations, size } = change;
    const body = { metadata: { uid, annotations }, ...(size !== undefined && { spec: { size } }) };
    try {
      return await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) return undefined; // a conflict: another object has the name now
      throw error;
    }
  }

  /** Returns when the object is gone; throws when the node refuses to remove the volume. */
  async remove(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    await this.#delete(volume, signal);
    await this.#untilGone(volume, signal);
  }

  /** Waits until this object (undefined once it is gone) is as wanted. */
  async until(
    { metadata: { name, uid } }: StoredLogicalVolume,
    predicate: (current: StoredLogicalVolume | undefined) => boolean,
    signal: AbortSignal,
    outOfTime: () => MoorageError,
  ): Promise<StoredLogicalVolume | undefined> {
    const same = (current: StoredLogicalVolume | undefined) => (current?.metadata.uid === uid ? current : undefined);
    try {
      return same(await this.#watched.until(name, (current) => predicate(same(current)), signal));
    } catch (error) {
      throw signal.aborted ? outOfTime() : error; // after a timeout, report what was not done
    }
  }

  /** The object with the request, created now or by an earlier call. The cache has it when this returns. */
  async #request(
    request: RequestedVolume,
    refuseIfDifferent: (existing: StoredLogicalVolume) => void,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume> {
    try {
      const created = await this.#client.create(logicalVolumes, request, { signal });
      await this.#untilWatched(created, signal);
      return created;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const { name } = request.metadata;
    const known = this.#watched.get(name)?.metadata.uid;
    const existing = await this.#client.get(logicalVolumes, name, { signal });
    // What was in the cache may have been deleted during the read, and the watch would not report that again.
    if (existing && existing.metadata.uid !== known) await this.#untilWatched(existing, signal);
    if (existing && !deleting(existing)) {
      refuseIfDifferent(existing);
      return existing;
    }
    if (existing) await this.#untilGone(existing, signal);
    return this.#request(request, refuseIfDifferent, signal);
  }

  async #untilAnswered(requested: StoredLogicalVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    const notCreated = () => new VolumeNotCreated(requested);
    const current = await this.until(requested, (current) => !current || answered(current), signal, notCreated);
    if (!current) throw notCreated();
    return current;
  }

  async #untilGone(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    let last = volume;
    const isSettled = (current: StoredLogicalVolume | undefined) => {
      if (current) last = current;
      return !current || removalFailureOf(current) !== undefined;
    };
    const left = await this.until(volume, isSettled, signal, () => new VolumeNotRemoved(last));
    const failure = left && removalFailureOf(left);
    if (failure) throw new NodeRefused(volume.spec.nodeName, failure);
  }

  /** The watch lags behind direct answers of the API server; until it has caught up, "not found" means nothing. */
  async #untilWatched(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    await this.until(volume, Boolean, signal, () => new WatchBehind(volume.metadata.name));
  }

  /**
   * False if the object has changed: a node that has not seen its own refusal yet tries again, and by now another call may
   * have reported the volume as created.
   */
  async #deleteRefused(refused: StoredLogicalVolume, signal: AbortSignal): Promise<boolean> {
    const { name, uid, resourceVersion } = refused.metadata;
    if (deleting(refused)) return true;
    try {
      await this.#client.delete(logicalVolumes, name, { preconditions: { uid, resourceVersion }, signal });
      return true;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
    const isOther = (current: StoredLogicalVolume | undefined) => current?.metadata.resourceVersion !== resourceVersion;
    await this.until(refused, isOther, signal, () => new WatchBehind(name));
    return false;
  }

  async #delete(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid } = volume.metadata;
    if (deleting(volume)) return;
    try {
      await this.#client.delete(logicalVolumes, name, { preconditions: { uid }, signal });
    } catch (error) {
      if (!isConflict(error)) throw error; // another object has the name now, so ours is gone
    }
  }
}

/** CSI names may have capitals, object names may not. */
export function objectName(name: string): string {
  return name.toLowerCase();
}

/** The only thing an empty volume needs is its device class. */
function creationRefused({ spec }: StoredLogicalVolume, failure: Failure): MoorageError {
  const isForClass = !spec.source && failure.code === numberOf('NotFound');
  return isForClass ? new DeviceClassNotOnNode(spec.nodeName, failure) : new NodeRefused(spec.nodeName, failure);
}

function onlyOne(id: string, volumes: readonly StoredLogicalVolume[]): StoredLogicalVolume | undefined {
  if (volumes.length > 1) throw new AmbiguousVolume(id, volumes);
  return volumes[0];
}

function answered(volume: StoredLogicalVolume): boolean {
  const { volumeID, currentSize } = volume.status ?? {};
  return Boolean(volumeID && currentSize) || failureOf(volume) !== undefined;
}
