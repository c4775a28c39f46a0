import { InvalidInput } from '../base/errors.ts';
import type { Command } from '../base/exec.ts';
import { btrfs } from './btrfs.ts';
import { ext4 } from './ext4.ts';
import { xfs } from './xfs.ts';

/**
 * A kind of filesystem: everything special about it. Only {@link filesystems} names the kinds; another one needs its own
 * file, a line there, and its package in the image.
 */
export interface Filesystem {
  /** As StorageClasses, mount and blkid write it. */
  readonly name: string;

  /** Below this size it cannot be created, or has no space left for data. */
  readonly smallestBytes: bigint;

  /** The mkfs options that users may set. */
  readonly mkfsOptions: MkfsOptions;

  /** Fast: no discards, which a new volume does not need. Never forced, except for `again`. */
  mkfs(request: MkfsRequest): Command;

  readonly superblock: SuperblockLayout;

  /** Grows a mounted filesystem in use to the size of its device. Does nothing if it already has its full size. */
  growth(devicePath: string, mountedAt: string): Command;

  /** For every mount of it. */
  readonly mountOptions: readonly string[];

  /**
   * For a read-only volume: a copy of a filesystem in use would replay its journal at mount, which a read-only device does
   * not allow.
   */
  readonly withoutRecovery: string;

  /** A command that checks it without changing it, for people to run. */
  readonly check: string;
}

export interface MkfsRequest {
  readonly devicePath: string;
  readonly uuid: string;
  /** Checked options of the user. They come after our own, so that they win. */
  readonly options: readonly string[];
  /** The device holds our own unfinished filesystem, which may be overwritten. */
  readonly again: boolean;
}

/**
 * Options that lay out the filesystem. Unlisted ones are refused, such as those that force mkfs, name another device or a
 * file of the node, or set the UUID by which Moorage recognises its work.
 */
export interface MkfsOptions {
  /** Options that take a value. */
  readonly valued: readonly string[];
  readonly plain: readonly string[];
  /** Words in a value that make mkfs use another device, or succeed without creating a filesystem. */
  readonly refused: RegExp;
}

/** Where the superblock is on the device, and how it is read. */
export interface SuperblockLayout {
  readonly offsetBytes: number;
  /** `block` has 1024 bytes. Undefined if this is not a superblock of this kind. */
  parse(block: DataView): Superblock | undefined;
}

export interface Superblock {
  /** How much of its device the filesystem uses. */
  readonly sizeBytes: bigint;
  /** mkfs did not finish, so it was never mounted. */
  readonly isUnfinished: boolean;
}

export const filesystems: readonly Filesystem[] = [ext4, xfs, btrfs];

/** For a request that names none. */
export const defaultFilesystem: Filesystem = ext4;

export function filesystemNamed(name: string | undefined): Filesystem | undefined {
  return filesystems.find((filesystem) => filesystem.name === name);
}

/** Splits the text into arguments for mkfs; `field` names its source. */
export function parseMkfsOptions({ name, mkfsOptions }: Filesystem, text: string, field: string): readonly string[] {
  const { valued, plain, refused } = mkfsOptions;
  const words = text.split(/\s+/).filter((word) => word !== '');
  const refuse = (word: string): never => {
    throw new InvalidInput(
      `${field} contains ${JSON.stringify(word)}, which is not allowed for ${name}; ` +
        `use ${valued.join(', ')}, each with a value${plain.length > 0 ? `, or ${plain.join(', ')}` : ''}`,
    );
  };
  for (let i = 0; i < words.length; i++) {
    const option = words[i] ?? '';
    if (plain.includes(option)) continue;
    if (!valued.includes(option)) refuse(option);
    const value = words[++i];
    if (value === undefined || !/^[A-Za-z0-9^][\w^.,=:+%-]*$/.test(value) || refused.test(value)) {
      refuse(value === undefined ? option : `${option} ${value}`);
    }
  }
  return words;
}
