import type { MoorageError } from '../base/errors.ts';
import { parseQuantity, toQuantity } from '../base/quantity.ts';
import type { StoredVolume, VolumeStore, WantedVolume } from '../csi/volume-store.ts';
import { isAlreadyExists, isConflict } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import { apiVersionOf } from '../kube/resource.ts';
import {
  deleting,
  failureOf,
  type LogicalVolume,
  logicalVolumes,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../logical-volume/logical-volume.ts';
import { claimName, createdByLabel, logicalVolume } from '../names.ts';
import { NodeRefused, VolumeNotMade, VolumeNotRemoved, VolumeTaken, WatchBehind } from './errors.ts';

type Client = Pick<KubeClient, 'create' | 'get' | 'list' | 'delete'>;
type Watched = Pick<Informer<LogicalVolume>, 'list' | 'until'>;

/**
 * CSI's volumes, each kept as one LogicalVolume object. The object is the memory: a call that is repeated, also to
 * another replica or after a crash, finds the object of the first one by its name and goes on from there.
 */
export class LogicalVolumeStore implements Pick<VolumeStore, 'create' | 'find' | 'remove'> {
  readonly #client: Client;
  readonly #watched: Watched;

  constructor(collaborators: { readonly client: Client; readonly watched: Watched }) {
    this.#client = collaborators.client;
    this.#watched = collaborators.watched;
  }

  async create(wanted: WantedVolume, signal: AbortSignal): Promise<StoredVolume> {
    const asked = await this.#ask(wanted, signal);
    const made = await this.#untilAnswered(asked, signal);
    const failure = failureOf(made);
    if (!failure) return stored(made);
    // Left in place it would fail every repetition of the call, although the node may have room by then.
    await this.#delete(made, signal);
    throw new NodeRefused(made.spec.nodeName, failure);
  }

  async find(id: string, signal: AbortSignal): Promise<StoredVolume | undefined> {
    const volume = await this.#findObject(id, signal);
    return volume && stored(volume);
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    const volume = await this.#findObject(id, signal);
    if (!volume) return;
    await this.#delete(volume, signal);
    await this.#untilGone(volume, signal);
  }

  /** The object that stands for the wish, made now or by an earlier call. */
  async #ask(wanted: WantedVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    try {
      return await this.#client.create(logicalVolumes, objectFor(wanted), { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const existing = await this.#client.get(logicalVolumes, objectName(wanted), { signal });
    if (!existing) return this.#ask(wanted, signal);
    if (deleting(existing)) {
      await this.#untilWatched(existing, signal);
      await this.#untilGone(existing, signal);
      return this.#ask(wanted, signal);
    }
    refuseIfDifferent(existing, wanted);
    return existing;
  }

  async #untilAnswered(asked: StoredLogicalVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    const { name, uid } = asked.metadata;
    const isAnswered = (current: StoredLogicalVolume | undefined) => current?.metadata.uid !== uid || answered(current);
    await this.#untilWatched(asked, signal);
    const current = await this.#until(name, isAnswered, signal, () => new VolumeNotMade(asked));
    if (current?.metadata.uid !== uid) throw new VolumeNotMade(asked);
    return current;
  }

  async #untilGone(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid } = volume.metadata;
    let last = volume;
    const isGone = (current: StoredLogicalVolume | undefined) => {
      if (current?.metadata.uid !== uid) return true;
      last = current;
      return false;
    };
    await this.#until(name, isGone, signal, () => new VolumeNotRemoved(last));
  }

  /** The watch lags behind what the API server told us directly; before it has caught up, "not there" means nothing. */
  async #untilWatched(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid } = volume.metadata;
    const isWatched = (current: StoredLogicalVolume | undefined) => current?.metadata.uid === uid;
    await this.#until(name, isWatched, signal, () => new WatchBehind(name));
  }

  /** A caller whose time is up wants to hear what was not done, not that time is up. */
  async #until(
    name: string,
    predicate: (current: StoredLogicalVolume | undefined) => boolean,
    signal: AbortSignal,
    outOfTime: () => MoorageError,
  ): Promise<StoredLogicalVolume | undefined> {
    try {
      return await this.#watched.until(name, predicate, signal);
    } catch (error) {
      throw signal.aborted ? outOfTime() : error;
    }
  }

  async #delete(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid } = volume.metadata;
    if (deleting(volume)) return;
    try {
      await this.#client.delete(logicalVolumes, name, { preconditions: { uid }, signal });
    } catch (error) {
      if (!isConflict(error)) throw error; // another object has the name by now: ours is gone
    }
  }

  /** A volume that our cache does not hold may be younger than the cache; only the API server itself can say no. */
  async #findObject(id: string, signal: AbortSignal): Promise<StoredLogicalVolume | undefined> {
    const cached = this.#watched.list().find((volume) => volumeIdOf(volume) === id);
    if (cached) return cached;
    const fieldSelector = `status.volumeID=${id}`;
    const { items } = await this.#client.list(logicalVolumes, { fieldSelector, signal });
    if (items[0]) await this.#untilWatched(items[0], signal);
    return items[0];
  }
}

/** Finalizer, label and identity travel with the object: the node needs no write of its own before it starts. */
function objectFor(wanted: WantedVolume): LogicalVolume {
  return {
    apiVersion: apiVersionOf(logicalVolumes),
    kind: logicalVolumes.kind,
    metadata: {
      name: objectName(wanted),
      finalizers: [logicalVolume.finalizer],
      labels: { [createdByLabel.key]: createdByLabel.value },
      ...(wanted.claim && { annotations: { [claimName]: wanted.claim } }),
    },
    spec: {
      name: wanted.name,
      nodeName: wanted.nodeNames[0],
      size: toQuantity(wanted.sizeBytes),
      ...(wanted.deviceClass && { deviceClass: wanted.deviceClass }),
      ...(wanted.lvcreateOptionClass && { lvcreateOptionClass: wanted.lvcreateOptionClass }),
    },
  };
}

function objectName(wanted: WantedVolume): string {
  return wanted.name.toLowerCase();
}

function refuseIfDifferent(existing: StoredLogicalVolume, wanted: WantedVolume): void {
  const { spec } = existing;
  const differences = [
    spec.name !== wanted.name && `name ${spec.name}`,
    parseQuantity(spec.size) !== wanted.sizeBytes && `size ${spec.size}`,
    (spec.deviceClass ?? '') !== wanted.deviceClass && `device class ${spec.deviceClass || 'by default'}`,
    (spec.lvcreateOptionClass ?? '') !== wanted.lvcreateOptionClass &&
      `lvcreate option class ${spec.lvcreateOptionClass || 'none'}`,
    !wanted.nodeNames.includes(spec.nodeName) && `node ${spec.nodeName}`,
  ].filter((difference) => difference !== false);
  if (differences.length > 0) throw new VolumeTaken(existing.metadata.name, differences);
}

function answered(volume: StoredLogicalVolume): boolean {
  const { volumeID, currentSize } = volume.status ?? {};
  return Boolean(volumeID && currentSize) || failureOf(volume) !== undefined;
}

function stored(volume: StoredLogicalVolume): StoredVolume {
  return {
    id: volumeIdOf(volume),
    name: volume.spec.name,
    nodeName: volume.spec.nodeName,
    deviceClass: volume.spec.deviceClass ?? '',
    lvcreateOptionClass: volume.spec.lvcreateOptionClass ?? '',
    sizeBytes: parseQuantity(volume.status?.currentSize ?? volume.spec.size),
  };
}
