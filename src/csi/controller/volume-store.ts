import { MoorageError } from '../../base/errors.ts';
import type { IoLimits } from '../io-limits.ts';

/** What a volume is a copy of. */
export interface ContentSource {
  readonly kind: 'volume' | 'snapshot';
  readonly id: string;
}

/** A volume that exists, as the cluster knows it. */
export interface StoredVolume {
  readonly id: string;
  readonly name: string;
  readonly nodeName: string;
  /** As it was asked for: empty for the node's default. */
  readonly deviceClass: string;
  /** As it was asked for: empty for none. */
  readonly lvcreateOptionClass: string;
  /** What it really has, which may be more than was asked for. */
  readonly sizeBytes: bigint;
  readonly source?: ContentSource;
}

export interface WantedVolume {
  /** Makes the wish repeatable: the same name with the same wishes is the same volume. */
  readonly name: string;
  /** Where it may be, best first. */
  readonly nodeNames: readonly [string, ...string[]];
  /** Empty for the node's default. */
  readonly deviceClass: string;
  /** Empty for none. */
  readonly lvcreateOptionClass: string;
  readonly sizeBytes: bigint;
  /** `<namespace>/<name>` of the claim it is made for, where the caller says so. */
  readonly claim?: string;
  /** On the first of the nodes, and of the same class. */
  readonly source?: ContentSource;
  readonly limits?: IoLimits;
}

/** The volumes of the cluster; a snapshot is not one of them. Every method can be repeated, by any replica. */
export interface VolumeStore {
  /** Ends when the volume is on its node's disks. If the signal aborts first, the wish stays: repeat the call. */
  create(wanted: WantedVolume, signal: AbortSignal): Promise<StoredVolume>;
  find(id: string, signal: AbortSignal): Promise<StoredVolume | undefined>;
  /** Those that are made, in no order. */
  list(signal: AbortSignal): Promise<readonly StoredVolume[]>;
  /** Ends when the device has at least this size, or as soon as the node says that it cannot have it. */
  grow(id: string, sizeBytes: bigint, signal: AbortSignal): Promise<StoredVolume>;
  /** These limits in place of all that were set before. */
  modify(id: string, limits: IoLimits, signal: AbortSignal): Promise<void>;
  /** Ends when nothing is left of the volume. One that is not there is removed already. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** A snapshot that exists, as the cluster knows it. */
export interface StoredSnapshot {
  readonly id: string;
  readonly name: string;
  /** The volume that it was taken of, which may be gone by now. */
  readonly sourceId: string;
  readonly nodeName: string;
  readonly deviceClass: string;
  readonly sizeBytes: bigint;
  readonly createdAt: Date;
  readonly isReady: boolean;
}

export interface WantedSnapshot {
  /** Makes the wish repeatable: the same name and source is the same snapshot, whatever became of the source. */
  readonly name: string;
  readonly sourceId: string;
}

/** The snapshots of the cluster; a volume is not one of them. Every method can be repeated, by any replica. */
export interface SnapshotStore {
  /** Ends when the snapshot is on its node's disks. If the signal aborts first, the wish stays: repeat the call. */
  create(wanted: WantedSnapshot, signal: AbortSignal): Promise<StoredSnapshot>;
  find(id: string, signal: AbortSignal): Promise<StoredSnapshot | undefined>;
  /** Those that are made, in no order. */
  list(signal: AbortSignal): Promise<readonly StoredSnapshot[]>;
  /** Ends when nothing is left of the snapshot. One that is not there is removed already. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** What the nodes say of themselves. */
export interface NodeCapacities {
  /** By node name, of the nodes that have this device class; the empty name is each node's default class. */
  freeBytes(deviceClass: string): ReadonlyMap<string, bigint>;
  /** The nodes that can hold a volume to IO limits. */
  limitingIo(): ReadonlySet<string>;
  /** Whether there may be such nodes; callers ask once, at their start, when no node may have said anything yet. */
  mayLimitIo(): boolean;
}

/** Whoever chooses the nodes for claims that wait for their first pod. */
export interface Scheduling {
  /** Has the claim, `<namespace>/<name>`, go to this node, if a node was chosen for it at all. */
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
