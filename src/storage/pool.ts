/** A volume's name within its pool; for LVM the name of the logical volume. */
export type VolumeId = string;

/** A volume as its pool knows it. */
export interface Volume {
  readonly id: VolumeId;
  readonly sizeBytes: bigint;
  /** The block device, ready to be opened. */
  readonly devicePath: string;
  readonly tags: readonly string[];
}

export interface NewVolume {
  readonly id: VolumeId;
  /** At least this much; the pool rounds up to what it can cut. */
  readonly sizeBytes: bigint;
  /** Kept with the volume on the disk itself, so that a node's disks alone tell whose data they hold. */
  readonly tags: readonly string[];
}

export interface Capacity {
  readonly sizeBytes: bigint;
  /** What a new volume may still take: spare space is already subtracted. */
  readonly freeBytes: bigint;
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

  create(wanted: NewVolume, signal: AbortSignal): Promise<Volume>;
  grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume>;
  addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume>;
  /** A volume that is not there is removed already. */
  remove(id: VolumeId, signal: AbortSignal): Promise<void>;

  /** Reads everything anew, for what others have changed. */
  refresh(signal: AbortSignal): Promise<void>;

  /** Calls back after each change of volumes or capacity; returns how to stop that. */
  onChange(listener: () => void): () => void;
}
