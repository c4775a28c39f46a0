import type { ChangeTracking } from './changes/change-tracking.ts';
import type { ClassDetails, DeviceClass, ErasePolicy, OptionClass } from './config/device-classes.ts';

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
  /** The volume that it is a snapshot or clone of; undefined once that is removed. */
  readonly origin?: VolumeId;
  /** LVM's ten lv_attr characters; a pool without LVM imitates them. */
  readonly attr: string;
}

/** A logical volume and where it is, whether or not a device class has it. */
export interface PlacedVolume extends Pick<Volume, 'id' | 'sizeBytes' | 'tags' | 'readOnly'> {
  readonly volumeGroup: string;
  readonly thinPool?: string;
}

export interface NewVolume {
  readonly id: VolumeId;
  /** The minimum; the pool rounds up to what it can allocate. */
  readonly sizeBytes: bigint;
  /** Stored on the disk with the volume, so that the owner of the data is known from the disks alone. */
  readonly tags: readonly string[];
  /** A class of lvcreate options from the configuration, instead of those of the device class. */
  readonly optionClass?: string;
}

export interface NewSnapshot {
  readonly id: VolumeId;
  readonly tags: readonly string[];
  /** If larger than the source, the snapshot is grown before it is returned. Default: the size of the source. */
  readonly sizeBytes?: bigint;
  /** A clone is a writable snapshot. */
  readonly access: Access;
}

export type Access = 'ro' | 'rw';

export interface Capacity {
  readonly sizeBytes: bigint;
  /** Available to new volumes: spare space is already subtracted. */
  readonly freeBytes: bigint;
  readonly thin?: ThinCapacity;
}

/** The usage of a thin pool, as last measured. */
export interface ThinCapacity {
  readonly dataPercent: number;
  readonly metadataPercent: number;
  readonly sizeBytes: bigint;
  /** How much may still be allocated to volumes, including overprovisioning. */
  readonly overprovisionBytes: bigint;
}

/** Where a pool allocates, and how it is. */
export interface PoolDetails extends ClassDetails {
  readonly volumeGroupUuid?: string;
  /** How much of the pool's size is taken, by volumes or by others; in a thin pool, how much is written. */
  readonly usedBytes: bigint;
  /** What does not work, why, and what to do. */
  readonly problem?: string;
}

/** A volume whose data is being erased, to remove or to empty it. Only then can its space, or the volume, be used. */
export interface Erasure {
  readonly id: VolumeId;
  readonly doneBytes: bigint;
  /** All passes together. */
  readonly totalBytes: bigint;
}

/**
 * What a removal found: nothing with that name, a volume whose space is free now, or one whose data was also erased first.
 */
export type Removal = 'absent' | 'removed' | 'erased';

/**
 * Where volumes are allocated: an LVM volume group, a thin pool, or a directory of files.
 * Every method can be retried after a crash and ends in the same state. A pool never formats or mounts.
 */
export interface Pool {
  /** The device class that this pool serves. */
  readonly name: string;

  /** From memory: these answer at once and run no command. */
  capacity(): Capacity;
  list(): readonly Volume[];
  get(id: VolumeId): Volume | undefined;
  erasures(): readonly Erasure[];
  /** Undefined if the pool is served by an lvmd that does not report it. */
  details(): PoolDetails | undefined;
  /** A change is running, and later calls wait for it. Each of its commands has a deadline. */
  isChanging(): boolean;

  create(wanted: NewVolume, signal: AbortSignal): Promise<Volume>;
  grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume>;
  /** A tag that names the owner replaces those of another owner. */
  addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume>;
  /** Removes the tags with these keys, which must be those of a move. */
  removeTags(id: VolumeId, keys: readonly string[], signal: AbortSignal): Promise<Volume>;
  snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume>;
  /**
   * Makes the volume read-only or writable, durably. Read-only does not stop a process that has the device open, so this
   * is refused until nobody has.
   */
  setAccess(id: VolumeId, access: Access, signal: AbortSignal): Promise<Volume>;
  /** For a move. Nothing happens until the first round. */
  trackChanges(id: VolumeId): ChangeTracking;

  /**
   * Succeeds if the volume does not exist. It is absent only if nothing has that name: in the list, left unfinished by a
   * crash, or being erased. If the class erases, the volume is marked durably and leaves the list at once;
   * the promise resolves when its data is erased and its space is free. The erasure continues when the caller leaves and
   * after a crash, and a retried call joins it.
   */
  remove(id: VolumeId, signal: AbortSignal): Promise<Removal>;

  /**
   * Destroys the data of the volume and keeps the rest: its name, size and owner. It then reads as zeros, and its tags are
   * those of a new volume. Like an erasure at a removal, this has a durable mark, hides the volume from the list, goes on
   * after a crash, and can be joined by a retry; a removal waits for it. Copies and read-only volumes are refused.
   */
  empty(id: VolumeId, policy: ErasePolicy, signal: AbortSignal): Promise<Volume>;

  /** Reads everything again, to find changes by others. */
  refresh(signal: AbortSignal): Promise<void>;

  /** Calls back after each change of volumes or capacity; returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
}

/** The configuration of one pool. */
export interface PoolSettings {
  readonly deviceClass: DeviceClass;
  readonly optionClasses: readonly OptionClass[];
}

/** A configured pool. Its settings can change while it is served; its volume group, thin pool or directory cannot. */
export interface ServedPool extends Pool {
  reconfigure(settings: PoolSettings): void;
  /**
   * Starts no more background work, such as erasures, and aborts what still runs after the grace period. Where two pools
   * on the same ground would not see each other's changes, it returns only when no call is running.
   */
  stop(graceMs: number): Promise<void>;
}

export type OpenPool = (settings: PoolSettings, signal: AbortSignal) => Promise<ServedPool>;
