import type { VolumeHealth } from '../../engine/volume-health.ts';
import type { EphemeralVolume, FilesystemSettings } from '../volume-context.ts';
import type { BlockUse, FilesystemUse } from '../volume-use.ts';

/** What a volume shall be to those who use it; a filesystem is made as its settings say, if there is none yet. */
export type PreparedUse = BlockUse | (FilesystemUse & { readonly settings: FilesystemSettings });

/** A volume made ready on its node, once for all its pods. */
export interface Staging {
  readonly volumeId: string;
  readonly stagingPath: string;
  readonly use: PreparedUse;
}

/** How a pod is to see a volume. */
export interface Publication {
  readonly volumeId: string;
  readonly targetPath: string;
  /** Where it was staged; undefined if it was not, and is to be mounted for this pod directly. */
  readonly stagingPath: string | undefined;
  readonly readOnly: boolean;
  /** Nobody else on this node may have the volume at the same time. */
  readonly exclusive: boolean;
  readonly use: PreparedUse;
  /** Set for an inline ephemeral volume: it is made now, and goes when it is unpublished. */
  readonly ephemeral: EphemeralVolume | undefined;
}

export interface Expansion {
  readonly volumeId: string;
  /** Where the volume was published or staged. */
  readonly volumePath: string;
  readonly stagingPath: string | undefined;
  /** Whether it is used as a raw device, where the caller says so. */
  readonly isBlock: boolean | undefined;
}

export interface Usage {
  readonly unit: 'bytes' | 'inodes';
  readonly total: bigint;
  /** What is used, and what may still be; undefined for a raw device, of which nobody knows. */
  readonly filling?: { readonly used: bigint; readonly available: bigint };
}

export interface VolumeStats {
  readonly usage: readonly Usage[];
  readonly condition: VolumeHealth;
}

/**
 * The volumes of this node, for its pods. Every method can be repeated, in any order and after a crash between any two
 * steps; a slow volume delays no other.
 */
export interface NodeVolumes {
  /** Afterwards the volume can be published from the staging path; a filesystem is as large as its device. */
  stage(staging: Staging, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is mounted at the staging path. */
  unstage(volumeId: string, stagingPath: string, signal: AbortSignal): Promise<void>;
  publish(publication: Publication, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is at the target path; an inline ephemeral volume is gone, any other is not touched. */
  unpublish(volumeId: string, targetPath: string, signal: AbortSignal): Promise<void>;
  /** From memory and statfs: it runs no command, and waits for nothing that happens to the volume. */
  stats(volumeId: string, volumePath: string, signal: AbortSignal): Promise<VolumeStats>;
  /** The filesystem, if there is one, becomes as large as its device has become. Returns the size of the device. */
  expand(expansion: Expansion, signal: AbortSignal): Promise<bigint>;
}
