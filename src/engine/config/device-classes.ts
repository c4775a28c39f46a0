import type { Command } from '../../base/exec.ts';

/** What happens to a volume's data before its space is reused. */
export type ErasePolicy =
  | { readonly kind: 'none' | 'discard' | 'zero' }
  /** Overwritten with random bytes this many times, then with zeros. */
  | { readonly kind: 'shred'; readonly passes: number };

interface ClassBase {
  readonly name: string;
  /** Used for claims that name no class. */
  readonly isDefault: boolean;
  /** Always kept free. */
  readonly spareBytes: bigint;
  readonly erase: ErasePolicy;
}

interface LvmClassBase extends ClassBase {
  readonly volumeGroup: string;
  /** 0 means LVM's default, no striping. */
  readonly stripes: number;
  readonly stripeSize: string | undefined;
  readonly lvcreateOptions: readonly string[];
}

/** Volumes are allocated in an LVM volume group. */
export interface ThickClass extends LvmClassBase {
  readonly type: 'thick';
  /** Off by default: copy-on-write snapshots slow down their origin and take as much space as it has. */
  readonly snapshots: 'none' | 'copy-on-write';
}

/** Volumes allocate from a thin pool as they are written. Spare space does not apply, as the pool has its space already. */
export interface ThinClass extends LvmClassBase {
  readonly type: 'thin';
  readonly thinPool: ThinPoolSettings;
}

export interface ThinPoolSettings {
  readonly name: string;
  /** Limit for the total size of all volumes, as a multiple of the pool's size; at least 1. */
  readonly overprovisionRatio: number;
  /** A fuller pool accepts no new volumes, snapshots or growth. */
  readonly maxDataPercent: number;
  readonly maxMetadataPercent: number;
}

/** Volumes are files in a directory. */
export interface FileClass extends ClassBase {
  readonly type: 'file';
  readonly path: string;
}

export type LvmClass = ThickClass | ThinClass;
export type DeviceClass = LvmClass | FileClass;

/** Where a class allocates, in the same form for all types. */
export interface ClassDetails {
  readonly type: DeviceClass['type'];
  readonly isDefault: boolean;
  readonly volumeGroup?: string;
  readonly thinPool?: string;
  readonly directory?: string;
  readonly spareBytes: bigint;
}

export function detailsOf(deviceClass: DeviceClass): ClassDetails {
  const { type, isDefault, spareBytes } = deviceClass;
  if (type === 'file') return { type, isDefault, spareBytes, directory: deviceClass.path };
  const { volumeGroup } = deviceClass;
  if (type === 'thick') return { type, isDefault, spareBytes, volumeGroup };
  return { type, isDefault, spareBytes: 0n, volumeGroup, thinPool: deviceClass.thinPool.name };
}

/** lvcreate options that a volume can request by name, instead of those of its device class. */
export interface OptionClass {
  readonly name: string;
  readonly options: readonly string[];
}

/** The contents of lvmd.yaml. */
export interface StorageConfig {
  readonly socketPath: string;
  readonly deviceClasses: readonly DeviceClass[];
  readonly optionClasses: readonly OptionClass[];
  readonly lvmCommand: Command;
}
