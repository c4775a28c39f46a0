import {
  currentBytes,
  isEncrypted,
  isSnapshot,
  recordSource,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { createdByLabel, logicalVolume, luks2, parameters } from '../../api/names.ts';
import { toQuantity } from '../../base/quantity.ts';
import {
  NoSuchVolume,
  type SnapshotStore,
  type StoredSnapshot,
  type WantedSnapshot,
} from '../../csi/controller/volume-store.ts';
import { SnapshotTaken } from './errors.ts';
import { type LogicalVolumeObjects, objectName, type RequestedVolume } from './logical-volume-objects.ts';

/** CSI snapshots, each stored as one read-only LogicalVolume object that names its source. */
export class LogicalVolumeSnapshots implements SnapshotStore {
  readonly #objects: LogicalVolumeObjects;

  constructor(objects: LogicalVolumeObjects) {
    this.#objects = objects;
  }

  async create({ name, sourceId }: WantedSnapshot, signal: AbortSignal): Promise<StoredSnapshot> {
    const source = await this.#objects.find(sourceId, signal);
    if (!source || isSnapshot(source)) throw new NoSuchVolume(sourceId);
    const refuseIfDifferent = (existing: StoredLogicalVolume) => this.#refuseIfDifferent(existing, name, sourceId);
    return this.#stored(await this.#objects.create(requestFor(name, source), refuseIfDifferent, signal));
  }

  async find(id: string, signal: AbortSignal): Promise<StoredSnapshot | undefined> {
    const snapshot = await this.#findSnapshot(id, signal);
    return snapshot && this.#stored(snapshot);
  }

  async list(signal: AbortSignal): Promise<readonly StoredSnapshot[]> {
    const objects = await this.#objects.list(signal);
    return objects.filter(isSnapshot).map((snapshot) => this.#stored(snapshot));
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    const snapshot = await this.#findSnapshot(id, signal);
    if (snapshot) await this.#objects.remove(snapshot, signal);
  }

  async #findSnapshot(id: string, signal: AbortSignal): Promise<StoredLogicalVolume | undefined> {
    const object = await this.#objects.find(id, signal);
    return object && isSnapshot(object) ? object : undefined;
  }

  /** The size is not compared: the source may have grown since the first call. */
  #refuseIfDifferent(existing: StoredLogicalVolume, name: string, sourceId: string): void {
    const differences = [
      !isSnapshot(existing) && 'the data of a volume',
      existing.spec.name !== name && `name ${existing.spec.name}`,
      this.#sourceIdOf(existing) !== sourceId && `source ${this.#sourceIdOf(existing)}`,
    ].filter((difference) => difference !== false);
    if (differences.length > 0) throw new SnapshotTaken(existing.metadata.name, differences);
  }

  #stored(snapshot: StoredLogicalVolume): StoredSnapshot {
    const { metadata, spec, status } = snapshot;
    return {
      id: volumeIdOf(snapshot),
      name: spec.name,
      sourceId: this.#sourceIdOf(snapshot),
      nodeName: spec.nodeName,
      deviceClass: spec.deviceClass ?? '',
      isEncrypted: isEncrypted(snapshot),
      sizeBytes: currentBytes(snapshot),
      createdAt: new Date(metadata.creationTimestamp),
      isReady: Boolean(status?.volumeID),
    };
  }

  /** TopoLVM recorded only the name of the source; once the source is gone, its ID is unknown. */
  #sourceIdOf(snapshot: StoredLogicalVolume): string {
    return this.#objects.sourceOf(snapshot)?.id ?? snapshot.spec.source ?? '';
  }
}

function requestFor(name: string, source: StoredLogicalVolume): RequestedVolume {
  const { nodeName, deviceClass } = source.spec;
  return {
    metadata: {
      name: objectName(name),
      finalizers: [logicalVolume.finalizer],
      labels: { [createdByLabel.key]: createdByLabel.value },
      annotations: {
        ...recordSource({ kind: 'volume', id: volumeIdOf(source) }),
        ...(isEncrypted(source) && { [parameters.encryption]: luks2 }),
      },
    },
    spec: {
      name,
      nodeName,
      size: toQuantity(currentBytes(source)),
      ...(deviceClass && { deviceClass }),
      source: source.spec.name,
      accessType: 'ro',
    },
  };
}
