import type { VolumeHealth } from '../../engine/volume-health.ts';
import type { VolumeKeys } from '../../filesystem/volume-keys.ts';
import type { BlockUse, EphemeralVolume, FilesystemSettings, FilesystemUse } from '../volume-use.ts';

/** How a volume is used; a missing filesystem is created with these settings. */
export type PreparedUse = BlockUse | (FilesystemUse & { readonly settings: FilesystemSettings });

/** Whether a volume must be encrypted, and its keys. An encrypted volume that is open needs none. */
export interface Encryption {
  readonly isRequested: boolean;
  readonly keys: VolumeKeys | undefined;
}

/** A volume prepared on its node, once for all its pods. */
export interface Staging {
  readonly volumeId: string;
  readonly stagingPath: string;
  readonly use: PreparedUse;
  /** Undefined if neither is given. */
  readonly encryption?: Encryption;
}

/** How a pod sees a volume. */
export interface Publication {
  readonly volumeId: string;
  readonly targetPath: string;
  /** Where it was staged; undefined if it was not, and must be mounted for this pod directly. */
  readonly stagingPath: string | undefined;
  readonly readOnly: boolean;
  /** No other pod on this node may use the volume at the same time. */
  readonly exclusive: boolean;
  readonly use: PreparedUse;
  /** Undefined if neither is given. */
  readonly encryption?: Encryption;
  /** Set for an inline ephemeral volume: created now, and removed when it is unpublished. */
  readonly ephemeral: EphemeralVolume | undefined;
}

export interface Growth {
  readonly volumeId: string;
  /** Where the volume was published or staged. */
  readonly volumePath: string;
  readonly stagingPath: string | undefined;
  /** Whether it is used as a raw device, if the caller says so. */
  readonly isBlock: boolean | undefined;
  /** To grow an encrypted volume. */
  readonly keys?: VolumeKeys | undefined;
}

export interface Usage {
  readonly unit: 'bytes' | 'inodes';
  readonly total: bigint;
  /** Undefined for a raw device, whose usage is unknown. */
  readonly filling?: { readonly used: bigint; readonly available: bigint };
}

export interface VolumeStats {
  readonly usage: readonly Usage[];
  readonly condition: VolumeHealth;
}

/**
 * The volumes of this node, for its pods. Every method can be retried, in any order and after a crash between any two
 * steps. A slow volume delays no other.
 */
export interface NodeVolumes {
  /** Afterwards the volume can be published from the staging path; a filesystem is as large as its device. */
  stage(staging: Staging, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is mounted at the staging path, and an encrypted volume is closed. */
  unstage(volumeId: string, stagingPath: string, signal: AbortSignal): Promise<void>;
  publish(publication: Publication, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is at the target path. An inline ephemeral volume is removed, any other is kept. */
  unpublish(volumeId: string, targetPath: string, signal: AbortSignal): Promise<void>;
  /** From memory and statfs: runs no command, and does not wait for operations on the volume. */
  stats(volumeId: string, volumePath: string, signal: AbortSignal): Promise<VolumeStats>;
  /** Grows the decrypted device and the filesystem, as far as there are any, to the size of the volume, and returns that. */
  grow(growth: Growth, signal: AbortSignal): Promise<bigint>;
}
