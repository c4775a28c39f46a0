import { MoorageError } from '../../base/errors.ts';
import type { IoLimits } from '../io-limits.ts';

/** The source of a copy. */
export interface ContentSource {
  readonly kind: 'volume' | 'snapshot';
  readonly id: string;
}

/** An existing volume, as recorded in the cluster. */
export interface StoredVolume {
  readonly id: string;
  readonly name: string;
  readonly nodeName: string;
  /** As requested: empty for the node's default. */
  readonly deviceClass: string;
  /** As requested: empty for none. */
  readonly lvcreateOptionClass: string;
  readonly isEncrypted: boolean;
  /** The actual size, which may exceed the requested one. */
  readonly sizeBytes: bigint;
  readonly source?: ContentSource;
}

export interface WantedVolume {
  /** Makes the call idempotent: a request with the same name and parameters is the same volume. */
  readonly name: string;
  /** The nodes that may have it, best first. */
  readonly nodeNames: readonly [string, ...string[]];
  /** Empty for the node's default. */
  readonly deviceClass: string;
  /** Empty for none. */
  readonly lvcreateOptionClass: string;
  readonly isEncrypted: boolean;
  readonly sizeBytes: bigint;
  /** `<namespace>/<name>` of its claim, if the caller says so. */
  readonly claim?: string;
  /** On the first of the nodes, unless `sourceNode` says otherwise, and in the same class. */
  readonly source?: ContentSource;
  /** The node of a source that is copied from another node. */
  readonly sourceNode?: string;
  readonly limits?: IoLimits;
}

/** The volumes of the cluster, without snapshots. Every method can be retried, by any replica. */
export interface VolumeStore {
  /** Resolves when the volume is on its node's disks. If the signal aborts first, the request stays: retry the call. */
  create(wanted: WantedVolume, signal: AbortSignal): Promise<StoredVolume>;
  find(id: string, signal: AbortSignal): Promise<StoredVolume | undefined>;
  /** All that exist, in no order. */
  list(signal: AbortSignal): Promise<readonly StoredVolume[]>;
  /** Resolves when the device has at least this size; rejects as soon as the node reports that it cannot grow. */
  grow(id: string, sizeBytes: bigint, signal: AbortSignal): Promise<StoredVolume>;
  /** Replaces all earlier limits. */
  modify(id: string, limits: IoLimits, signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is left of the volume. A missing volume counts as removed. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** An existing snapshot, as recorded in the cluster. */
export interface StoredSnapshot {
  readonly id: string;
  readonly name: string;
  /** The volume that it was taken of, which may have been removed since. */
  readonly sourceId: string;
  readonly nodeName: string;
  readonly deviceClass: string;
  /** As its source is. */
  readonly isEncrypted: boolean;
  readonly sizeBytes: bigint;
  readonly createdAt: Date;
  readonly isReady: boolean;
}

export interface WantedSnapshot {
  /** Makes the call idempotent: the same name and source is the same snapshot, even if the source is gone. */
  readonly name: string;
  readonly sourceId: string;
}

/** The snapshots of the cluster, without volumes. Every method can be retried, by any replica. */
export interface SnapshotStore {
  /** Resolves when the snapshot is on its node's disks. If the signal aborts first, the request stays: retry the call. */
  create(wanted: WantedSnapshot, signal: AbortSignal): Promise<StoredSnapshot>;
  find(id: string, signal: AbortSignal): Promise<StoredSnapshot | undefined>;
  /** All that exist, in no order. */
  list(signal: AbortSignal): Promise<readonly StoredSnapshot[]>;
  /** Resolves when nothing is left of the snapshot. A missing snapshot counts as removed. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** What the nodes report. */
export interface NodeCapacities {
  /** Free bytes by node name, for nodes with this device class; the empty name is each node's default class. */
  freeBytes(deviceClass: string): ReadonlyMap<string, bigint>;
  /** The nodes that are being deleted: a new volume there would be lost with its node. */
  leaving(): ReadonlySet<string>;
  /** The nodes that can enforce IO limits. */
  limitingIo(): ReadonlySet<string>;
  /** Whether there may be such nodes; callers ask once, at start, when no node may have reported yet. */
  mayLimitIo(): boolean;
}

/** The claims of new volumes, by `<namespace>/<name>`. */
export interface Claims {
  /** The VolumeAttributesClass that the claim names; undefined if none. */
  attributesClassOf(claim: string, signal: AbortSignal): Promise<string | undefined>;
  /** The value of an annotation of the claim; undefined if it has none. */
  annotationOf(claim: string, key: string, signal: AbortSignal): Promise<string | undefined>;
  /** Sends a claim that waits for its first pod to this node, if a node was chosen for it at all. */
  chooseNode(claim: string, nodeName: string, signal: AbortSignal): Promise<void>;
}

export class NoSuchVolume extends MoorageError {
  readonly code = 'NotFound';

  constructor(id: string) {
    super(`there is no volume ${id}; check the volume handle of the PersistentVolume`);
  }
}

export class NoSuchSnapshot extends MoorageError {
  readonly code = 'NotFound';

  constructor(id: string) {
    super(`there is no snapshot ${id}; check the snapshot handle of the VolumeSnapshotContent`);
  }
}
