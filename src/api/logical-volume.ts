import { parseQuantity } from '../base/quantity.ts';
import type { ObjectMeta, Resource, Stored } from '../kube/resource.ts';
import { contentSourceAnnotation, logicalVolume, resizeRequestedAnnotation } from './names.ts';

/** Kubernetes writes texts such as `1Gi`; a person may have written a plain number. */
export type Quantity = string | number;

export function bytesOf(quantity: Quantity): bigint {
  return parseQuantity(String(quantity));
}

/** One volume on one node: the controller asks for it in `spec`, the node answers in `status`. */
export interface LogicalVolume {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
  readonly spec: LogicalVolumeSpec;
  readonly status?: LogicalVolumeStatus;
}

export interface LogicalVolumeSpec {
  /** The name that the caller of CreateVolume chose. */
  readonly name: string;
  readonly nodeName: string;
  readonly size: Quantity;
  /** Empty or absent for the node's default. */
  readonly deviceClass?: string;
  readonly lvcreateOptionClass?: string;
  /** `spec.name` of the LogicalVolume that this one is a copy of. */
  readonly source?: string;
  /** For a copy: a snapshot can only be read, a clone is a volume like any other. */
  readonly accessType?: 'ro' | 'rw' | '';
}

export interface LogicalVolumeStatus {
  /** Set once the volume is there: its name on the node's disks, and its CSI volume ID. */
  readonly volumeID?: string;
  /** A gRPC status code; anything but 0 says that the volume could not be made, grown or removed. */
  readonly code?: number;
  readonly message?: string;
  /** What the volume really has, which may be more than was asked for. */
  readonly currentSize?: Quantity;
  /** The value of the annotation `topolvm.io/resize-requested-at` that code, message and currentSize are the answer to. */
  readonly answeredResize?: string;
}

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
 * The volume's name on the disks. The object's uid is unique for all time, so a volume that was left behind by an
 * earlier object of the same name can never be mistaken for this one.
 */
export function volumeIdOf(volume: StoredLogicalVolume): string {
  return volume.status?.volumeID || volume.metadata.uid;
}

/** What it really has; what was asked for while its node has not measured it. */
export function currentBytes({ spec, status }: LogicalVolume): bigint {
  return bytesOf(status?.currentSize ?? spec.size);
}

/** A snapshot can only be read and copied; whatever else a LogicalVolume is, it is a volume. */
export function isSnapshot({ spec }: LogicalVolume): boolean {
  return Boolean(spec.source) && spec.accessType === 'ro';
}

/** What the node could not do, in its own words. */
export interface Failure {
  readonly code: number;
  readonly message: string;
}

/**
 * Why the node could not make it; undefined while it has not failed. A volume that was made holds data, and whatever
 * went wrong with it later, such as growing it, is no reason to take it for one that was not.
 */
export function failureOf({ status }: StoredLogicalVolume): Failure | undefined {
  return status?.volumeID ? undefined : failureIn(status);
}

/** Why it could not grow as it was last asked to. */
export function growthFailureOf({ metadata, status }: StoredLogicalVolume): Failure | undefined {
  const isAnswer =
    status?.answeredResize && status.answeredResize === metadata.annotations?.[resizeRequestedAnnotation];
  return isAnswer ? failureIn(status) : undefined;
}

/** Why it is still there, although it was asked to go. What went wrong before that names the growth that it answers. */
export function removalFailureOf(volume: StoredLogicalVolume): Failure | undefined {
  const { volumeID, answeredResize } = volume.status ?? {};
  return deleting(volume) && volumeID && !answeredResize ? failureIn(volume.status) : undefined;
}

function failureIn({ code = 0, message = '' }: LogicalVolumeStatus = {}): Failure | undefined {
  return code === 0 ? undefined : { code, message };
}

/** What a LogicalVolume is a copy of, by the volume ID of that. */
export interface RecordedSource {
  readonly kind: 'volume' | 'snapshot';
  readonly id: string;
}

export function recordSource({ kind, id }: RecordedSource): Readonly<Record<string, string>> {
  return { [contentSourceAnnotation]: `${kind}/${id}` };
}

/** Undefined for what is no copy, and for a copy that TopoLVM has made: that names its source's object only. */
export function recordedSourceOf({ metadata }: LogicalVolume): RecordedSource | undefined {
  const [, kind, id] = /^(volume|snapshot)\/(.+)$/.exec(metadata?.annotations?.[contentSourceAnnotation] ?? '') ?? [];
  return kind && id ? { kind: kind as RecordedSource['kind'], id } : undefined;
}
