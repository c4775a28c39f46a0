import { parseQuantity } from '../base/quantity.ts';
import type { ObjectOf } from './crd/crd.ts';
import type { logicalVolumeCrd } from './crd/logical-volume.ts';
import { contentSourceAnnotation, logicalVolume, luks2, parameters, resizeRequestedAnnotation } from './names.ts';
import type { Resource, Stored } from './object.ts';

/** Kubernetes writes strings such as `1Gi`; a person may write a plain number. */
export type Quantity = string | number;

export function bytesOf(quantity: Quantity): bigint {
  return parseQuantity(String(quantity));
}

/** One volume on one node: the controller requests it in `spec`, the node answers in `status`. The fields are in its CRD. */
export type LogicalVolume = ObjectOf<typeof logicalVolumeCrd>;
export type LogicalVolumeSpec = LogicalVolume['spec'];
export type LogicalVolumeStatus = NonNullable<LogicalVolume['status']>;

export type StoredLogicalVolume = Stored<LogicalVolume>;

export const logicalVolumes: Resource<LogicalVolume> = {
  group: logicalVolume.group,
  version: logicalVolume.version,
  plural: logicalVolume.plural,
  kind: logicalVolume.kind,
  namespaced: false,
};

export function deleting(volume: StoredLogicalVolume): boolean {
  return volume.metadata.deletionTimestamp !== undefined;
}

/**
 * The volume's name on the disks. The object's uid is never reused, so the leftover volume of an earlier object with the
 * same name cannot be mistaken for this one.
 */
export function volumeIdOf(volume: StoredLogicalVolume): string {
  return volume.status?.volumeID || volume.metadata.uid;
}

/** The actual size; the requested size until the node has measured it. */
export function currentBytes({ spec, status }: LogicalVolume): bigint {
  return bytesOf(status?.currentSize ?? spec.size);
}

/** A snapshot can only be read and copied. Every other LogicalVolume is a volume. */
export function isSnapshot({ spec }: LogicalVolume): boolean {
  return Boolean(spec.source) && spec.accessType === 'ro';
}

/** TopoLVM names only the source's object. */
export function isSnapshotOf(volume: StoredLogicalVolume, source: StoredLogicalVolume): boolean {
  const isCopy = recordedSourceOf(volume)?.id === volumeIdOf(source) || volume.spec.source === source.spec.name;
  return isSnapshot(volume) && isCopy;
}

/** Whether its StorageClass, or that of its source, requested encryption. */
export function isEncrypted({ metadata }: LogicalVolume): boolean {
  return metadata?.annotations?.[parameters.encryption] === luks2;
}

/** The failure that the node reported. */
export interface Failure {
  readonly code: number;
  readonly message: string;
}

/**
 * Why the node could not create it; undefined if it has not failed. A later failure of an existing volume, such as to grow,
 * does not count: the volume contains data.
 */
export function failureOf({ status }: StoredLogicalVolume): Failure | undefined {
  return status?.volumeID ? undefined : failureIn(status);
}

/** Why its last requested growth failed. */
export function growthFailureOf({ metadata, status }: StoredLogicalVolume): Failure | undefined {
  const isAnswer =
    status?.answeredResize && status.answeredResize === metadata.annotations?.[resizeRequestedAnnotation];
  return isAnswer ? failureIn(status) : undefined;
}

/** Why its removal failed. A status that still answers a growth is older than the removal. */
export function removalFailureOf(volume: StoredLogicalVolume): Failure | undefined {
  const { volumeID, answeredResize } = volume.status ?? {};
  return deleting(volume) && volumeID && !answeredResize ? failureIn(volume.status) : undefined;
}

function failureIn({ code = 0, message = '' }: LogicalVolumeStatus = {}): Failure | undefined {
  return code === 0 ? undefined : { code, message };
}

/** The source of a copy, by its volume ID. */
export interface RecordedSource {
  readonly kind: 'volume' | 'snapshot';
  readonly id: string;
}

export function recordSource({ kind, id }: RecordedSource): Readonly<Record<string, string>> {
  return { [contentSourceAnnotation]: `${kind}/${id}` };
}

/** Undefined if it is not a copy, or a copy created by TopoLVM, which names only the source's object. */
export function recordedSourceOf({ metadata }: LogicalVolume): RecordedSource | undefined {
  const [, kind, id] = /^(volume|snapshot)\/(.+)$/.exec(metadata?.annotations?.[contentSourceAnnotation] ?? '') ?? [];
  return kind && id ? { kind: kind as RecordedSource['kind'], id } : undefined;
}
