import type { DeviceClass, OptionClass } from './config/device-classes.ts';

/** A volume's name within its pool; for LVM the name of the logical volume. */
export type VolumeId = string;

/** A volume as its pool knows it. */
export interface Volume {
  readonly id: VolumeId;
  readonly sizeBytes: bigint;
  /** The block device, ready to be opened. */
  readonly devicePath: string;
  readonly tags: readonly string[];
  readonly readOnly: boolean;
  /** What it is a snapshot or clone of; gone when that is removed. */
  readonly origin?: VolumeId;
  /** LVM's ten lv_attr characters; a pool without LVM says what LVM would. */
  readonly attr: string;
}

export interface NewVolume {
  readonly id: VolumeId;
  /** At least this much; the pool rounds up to what it can cut. */
  readonly sizeBytes: bigint;
  /** Kept with the volume on the disk itself, so that a node's disks alone tell whose data they hold. */
  readonly tags: readonly string[];
  /** A class of lvcreate options from the configuration, in place of those of the device class. */
  readonly optionClass?: string;
}

export interface NewSnapshot {
  readonly id: VolumeId;
  readonly tags: readonly string[];
  /** Larger than the source: the snapshot is grown before it is handed out. Left out: as large as the source. */
  readonly sizeBytes?: bigint;
  /** A clone is a snapshot that can be written. */
  readonly access: 'ro' | 'rw';
}

export interface Capacity {
  readonly sizeBytes: bigint;
  /** What a new volume may still take: spare space is already subtracted. */
  readonly freeBytes: bigint;
  readonly thin?: ThinFigures;
}

/** How full a thin pool is, as last measured. */
export interface ThinFigures {
  readonly dataPercent: number;
  readonly metadataPercent: number;
  readonly sizeBytes: bigint;
  /** What may still be promised to volumes. */
  readonly overprovisionBytes: bigint;
}

/** A removed volume whose data is being destroyed. Its space is given out again when that is done. */
export interface Erasure {
  readonly id: VolumeId;
  readonly doneBytes: bigint;
  /** All passes together. */
  readonly totalBytes: bigint;
}

/**
 * Where volumes are cut from: an LVM volume group, a thin pool, or a directory of files.
 * Every method can be repeated after a crash and ends in the same state. A pool never formats or mounts.
 */
export interface Pool {
  /** The device class that this pool serves. */
  readonly name: string;

  /** From memory: these answer at once and run no command. */
  capacity(): Capacity;
  list(): readonly Volume[];
  get(id: VolumeId): Volume | undefined;
  erasures(): readonly Erasure[];
  /** A change is under way, and whatever comes later waits for it. Each of its commands has a deadline. */
  isChanging(): boolean;

  create(wanted: NewVolume, signal: AbortSignal): Promise<Volume>;
  grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume>;
  addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume>;
  snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume>;

  /**
   * A volume that is not there is removed already; the answer is whether there was anything by that name, be it in the
   * list, left half-way by a crash, or being erased. Where the class erases, the volume is marked durably and leaves the
   * list at once; the promise resolves when its data is destroyed and its space free. That goes on when the caller
   * leaves and after a crash, and a repeated call joins it.
   */
  remove(id: VolumeId, signal: AbortSignal): Promise<boolean>;

  /** Reads everything anew, for what others have changed. */
  refresh(signal: AbortSignal): Promise<void>;

  /** Calls back after each change of volumes or capacity; returns how to stop that. */
  onChange(listener: () => void): () => void;
}

/** What the configuration says about one pool. */
export interface PoolSettings {
  readonly deviceClass: DeviceClass;
  readonly optionClasses: readonly OptionClass[];
}

/** A pool as the configuration keeps it: its settings can change while it serves, what it stands on cannot. */
export interface ServedPool extends Pool {
  reconfigure(settings: PoolSettings): void;
  /**
   * Starts nothing more of its own, such as erasures; after the grace period what runs is aborted. Where two pools on the
   * same ground would not know of each other, it returns only when no call is under way any more.
   */
  stop(graceMs: number): Promise<void>;
}

export type OpenPool = (settings: PoolSettings, signal: AbortSignal) => Promise<ServedPool>;
