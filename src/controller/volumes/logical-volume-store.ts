import {
  bytesOf,
  currentBytes,
  growthFailureOf,
  isEncrypted,
  isSnapshot,
  recordSource,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import {
  claimKey,
  createdByLabel,
  ioLimitNames,
  logicalVolume,
  luks2,
  parameters,
  resizeRequestedAnnotation,
} from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import { toQuantity } from '../../base/quantity.ts';
import {
  NoSuchVolume,
  type StoredVolume,
  type VolumeStore,
  type WantedVolume,
} from '../../csi/controller/volume-store.ts';
import { formatIoLimits, type IoLimits } from '../../csi/io-limits.ts';
import type { CrossNodeCopies, WantedCopy } from './cross-node-copies.ts';
import { NodeRefused, SourceGone, VolumeNotGrown, VolumeTaken } from './errors.ts';
import { type LogicalVolumeObjects, objectName, type RequestedVolume } from './logical-volume-objects.ts';

interface Collaborators {
  readonly objects: LogicalVolumeObjects;
  readonly copies: Pick<CrossNodeCopies, 'create'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** CSI volumes, each stored as one LogicalVolume object. */
export class LogicalVolumeStore implements VolumeStore {
  readonly #objects: LogicalVolumeObjects;
  readonly #copies: Collaborators['copies'];
  readonly #clock: Pick<Clock, 'now'>;

  constructor(collaborators: Collaborators) {
    this.#objects = collaborators.objects;
    this.#copies = collaborators.copies;
    this.#clock = collaborators.clock;
  }

  async create(wanted: WantedVolume, signal: AbortSignal): Promise<StoredVolume> {
    const source = wanted.source && (await this.#objects.find(wanted.source.id, signal));
    if (wanted.source && !source) throw new SourceGone(wanted.source);
    const request = requestFor(wanted, source);
    const refuseIfDifferent = (existing: StoredLogicalVolume) => this.#refuseIfDifferent(existing, wanted);
    const created = isCrossNode(wanted)
      ? this.#copies.create(wanted, request, refuseIfDifferent, signal)
      : this.#objects.create(request, refuseIfDifferent, signal);
    return this.#stored(await created);
  }

  async find(id: string, signal: AbortSignal): Promise<StoredVolume | undefined> {
    const volume = await this.#findVolume(id, signal);
    return volume && this.#stored(volume);
  }

  async list(signal: AbortSignal): Promise<readonly StoredVolume[]> {
    const objects = await this.#objects.list(signal);
    return objects.filter((object) => !isSnapshot(object)).map((volume) => this.#stored(volume));
  }

  async grow(id: string, sizeBytes: bigint, signal: AbortSignal): Promise<StoredVolume> {
    const volume = await this.#findVolume(id, signal);
    if (!volume) throw new NoSuchVolume(id);
    if (hasGrown(volume, sizeBytes)) return this.#stored(await this.#withdrawGrowth(volume, signal));
    const isInProgress = bytesOf(volume.spec.size) === sizeBytes && !volume.status?.code;
    const requested = isInProgress ? volume : await this.#requestGrowth(volume, sizeBytes, signal);
    if (!requested) throw new NoSuchVolume(id);
    return this.#stored(await this.#untilGrown(requested, sizeBytes, signal));
  }

  async modify(id: string, limits: IoLimits, signal: AbortSignal): Promise<void> {
    const volume = await this.#findVolume(id, signal);
    const unset = Object.fromEntries(Object.values(ioLimitNames).map((name) => [name, null]));
    const annotations = { ...unset, ...formatIoLimits(limits) };
    if (!volume || !(await this.#objects.change(volume, { annotations }, signal))) throw new NoSuchVolume(id);
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    const volume = await this.#findVolume(id, signal);
    if (volume) await this.#objects.remove(volume, signal);
  }

  async #findVolume(id: string, signal: AbortSignal): Promise<StoredLogicalVolume | undefined> {
    const object = await this.#objects.find(id, signal);
    return object && !isSnapshot(object) ? object : undefined;
  }

  /** Withdraws an earlier refused request; otherwise the node would grow the volume as soon as there is space. */
  async #withdrawGrowth(volume: StoredLogicalVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    const bytes = currentBytes(volume);
    if (bytesOf(volume.spec.size) <= bytes) return volume;
    const settled = await this.#objects.change(volume, { annotations: {}, size: toQuantity(bytes) }, signal);
    if (!settled) throw new NoSuchVolume(volumeIdOf(volume));
    return settled;
  }

  /** The time identifies the request, even if the size is the same: the node repeats it in its answer. */
  async #requestGrowth(
    volume: StoredLogicalVolume,
    sizeBytes: bigint,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume | undefined> {
    const annotations = { [resizeRequestedAnnotation]: requestTime(this.#clock.now()) };
    return this.#objects.change(volume, { annotations, size: toQuantity(sizeBytes) }, signal);
  }

  async #untilGrown(
    requested: StoredLogicalVolume,
    sizeBytes: bigint,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume> {
    // The watch may still report an older request, whose answer is already in the status of `asked`.
    const answeredBefore = requested.status?.answeredResize;
    const refusal = (current: StoredLogicalVolume) =>
      current.status?.answeredResize === answeredBefore ? undefined : growthFailureOf(current);
    let last = requested;
    const isSettled = (current: StoredLogicalVolume | undefined) => {
      if (current) last = current;
      return !current || hasGrown(current, sizeBytes) || refusal(current) !== undefined;
    };
    const current = await this.#objects.until(requested, isSettled, signal, () => new VolumeNotGrown(last));
    if (!current) throw new NoSuchVolume(volumeIdOf(requested));
    const refused = hasGrown(current, sizeBytes) ? undefined : refusal(current);
    if (refused) throw new NodeRefused(current.spec.nodeName, refused);
    return current;
  }

  #refuseIfDifferent(existing: StoredLogicalVolume, wanted: WantedVolume): void {
    const { spec } = existing;
    const source = this.#objects.sourceOf(existing);
    const differences = [
      isSnapshot(existing) && 'the data of a snapshot',
      spec.name !== wanted.name && `name ${spec.name}`,
      bytesOf(spec.size) !== wanted.sizeBytes && `size ${spec.size}`,
      (spec.deviceClass ?? '') !== wanted.deviceClass && `device class ${spec.deviceClass || '(default)'}`,
      (spec.lvcreateOptionClass ?? '') !== wanted.lvcreateOptionClass &&
        `lvcreate option class ${spec.lvcreateOptionClass || 'none'}`,
      isEncrypted(existing) !== wanted.isEncrypted && `encryption ${isEncrypted(existing) ? luks2 : 'none'}`,
      source?.id !== wanted.source?.id && `source ${source?.id ?? 'none'}`,
      !wanted.nodeNames.includes(spec.nodeName) && `node ${spec.nodeName}`,
    ].filter((difference) => difference !== false);
    if (differences.length > 0) throw new VolumeTaken(existing.metadata.name, differences);
  }

  #stored(volume: StoredLogicalVolume): StoredVolume {
    const { name, nodeName, deviceClass = '', lvcreateOptionClass = '' } = volume.spec;
    const source = this.#objects.sourceOf(volume);
    return {
      id: volumeIdOf(volume),
      name,
      nodeName,
      deviceClass,
      lvcreateOptionClass,
      isEncrypted: isEncrypted(volume),
      sizeBytes: currentBytes(volume),
      ...(source && { source }),
    };
  }
}

/** Finalizer, label and identity are part of the new object: the node needs no write of its own before it starts. */
function requestFor(wanted: WantedVolume, source: StoredLogicalVolume | undefined): RequestedVolume {
  const { name, nodeNames, sizeBytes, deviceClass, lvcreateOptionClass, claim } = wanted;
  const annotations = {
    ...(claim && { [claimKey]: claim }),
    ...(wanted.source && recordSource(wanted.source)),
    ...(wanted.limits && formatIoLimits(wanted.limits)),
    ...(wanted.isEncrypted && { [parameters.encryption]: luks2 }),
  };
  return {
    metadata: {
      name: objectName(name),
      finalizers: [logicalVolume.finalizer],
      labels: { [createdByLabel.key]: createdByLabel.value },
      annotations,
    },
    spec: {
      name,
      nodeName: nodeNames[0],
      size: toQuantity(sizeBytes),
      ...(deviceClass && { deviceClass }),
      ...(lvcreateOptionClass && { lvcreateOptionClass }),
      ...(source && !wanted.sourceNode && { source: source.spec.name, accessType: 'rw' }),
    },
  };
}

function isCrossNode(wanted: WantedVolume): wanted is WantedCopy {
  return wanted.sourceNode !== undefined;
}

function hasGrown({ status }: StoredLogicalVolume, sizeBytes: bigint): boolean {
  return status?.currentSize !== undefined && bytesOf(status.currentSize) >= sizeBytes;
}

/** As TopoLVM writes it: `2026-01-31 23:59:59.999 +0000 UTC`. */
function requestTime(nowMs: number): string {
  return new Date(nowMs).toISOString().replace('T', ' ').replace('Z', ' +0000 UTC');
}
