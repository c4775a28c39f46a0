import type { ObjectMeta, Resource, Stored } from '../kube/resource.ts';
import { logicalVolume } from '../names.ts';

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
  /** A quantity. */
  readonly size: string;
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
  /** A gRPC status code; anything but 0 says that the volume could not be made, or could not be removed. */
  readonly code?: number;
  readonly message?: string;
  /** A quantity: what the volume really has, which may be more than was asked for. */
  readonly currentSize?: string;
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

/**
 * Why the node could not make it; undefined while it has not failed. A volume that was made holds data, and whatever
 * went wrong with it later, such as growing it, is no reason to take it for one that was not.
 */
export function failureOf({
  status,
}: StoredLogicalVolume): { readonly code: number; readonly message: string } | undefined {
  const { volumeID, code = 0, message = '' } = status ?? {};
  return volumeID || code === 0 ? undefined : { code, message };
}
