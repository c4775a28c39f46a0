import type { Command } from '../base/exec.ts';

interface ClassBase {
  readonly name: string;
  readonly isDefault: boolean;
  /** Kept free, whatever is asked for. */
  readonly spareBytes: bigint;
}

export interface ThickClass extends ClassBase {
  readonly type: 'thick';
  readonly volumeGroup: string;
  readonly stripes?: number;
  readonly stripeSize?: string;
  readonly lvcreateOptions: readonly string[];
}

export interface FileClass extends ClassBase {
  readonly type: 'file';
  readonly path: string;
}

export type DeviceClass = ThickClass | FileClass;

/** What TopoLVM's lvmd.yaml says. */
export interface StorageConfig {
  readonly socketPath: string;
  readonly deviceClasses: readonly DeviceClass[];
  readonly lvmCommand: Command;
}

/** Throws InvalidStorageConfig with every mistake at once, each with its path. */
export function parseStorageConfig(_yaml: string): StorageConfig {
  throw new Error('to come');
}
