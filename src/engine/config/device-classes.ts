import type { Command } from '../../base/exec.ts';

/** What happens to a volume's data before its space is given out again. */
export type ErasePolicy =
  | { readonly kind: 'none' | 'discard' | 'zero' }
  /** Overwritten with random bytes as many times, and with zeros at last. */
  | { readonly kind: 'shred'; readonly passes: number };

interface ClassBase {
  readonly name: string;
  /** Serves claims that name no class. */
  readonly isDefault: boolean;
  /** Kept free, whatever is asked for. */
  readonly spareBytes: bigint;
  readonly erase: ErasePolicy;
}

interface LvmClassBase extends ClassBase {
  readonly volumeGroup: string;
  /** 0 leaves it to LVM, which does not stripe. */
  readonly stripes: number;
  readonly stripeSize: string | undefined;
  readonly lvcreateOptions: readonly string[];
}

/** Volumes are cut from an LVM volume group. */
export interface ThickClass extends LvmClassBase {
  readonly type: 'thick';
  /** Copy-on-write snapshots make their origin slower, and take as much room as it has: only where they are asked for. */
  readonly snapshots: 'none' | 'copy-on-write';
}

/** Volumes take what is written to them from a thin pool. Spare is not theirs to keep: the pool has its room already. */
export interface ThinClass extends LvmClassBase {
  readonly type: 'thin';
  readonly thinPool: ThinPoolSettings;
}

export interface ThinPoolSettings {
  readonly name: string;
  /** How many times the pool's size may be promised to its volumes; at least 1. */
  readonly overprovisionRatio: number;
  /** Nothing new is promised by a pool that is fuller than this. */
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

/** Options of lvcreate that a volume may ask for by name, in place of those of its device class. */
export interface OptionClass {
  readonly name: string;
  readonly options: readonly string[];
}

/** What lvmd.yaml says. */
export interface StorageConfig {
  readonly socketPath: string;
  readonly deviceClasses: readonly DeviceClass[];
  readonly optionClasses: readonly OptionClass[];
  readonly lvmCommand: Command;
}
