import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { abortable } from '../base/abortable.ts';
import type { Filesystem } from './filesystem.ts';

/** What a filesystem says of itself at its fixed place on the device. */
export interface Superblock {
  readonly filesystem: Filesystem;
  /** How much of its device the filesystem uses. */
  readonly sizeBytes: bigint;
  /** Its mkfs has not come to the end: nobody can ever have mounted it. */
  readonly isUnfinished: boolean;
}

/**
 * Undefined if no such filesystem is there, which says nothing of what else may be. Busy if others hold up all reads now,
 * which says nothing at all: nobody may decide on it.
 */
export type ReadSuperblock = (
  devicePath: string,
  filesystem: Filesystem,
  signal: AbortSignal,
) => Promise<Superblock | 'busy' | undefined>;

interface Layout {
  readonly offsetBytes: number;
  /** Undefined if this is no superblock of the kind. */
  parse(block: DataView): Omit<Superblock, 'filesystem'> | undefined;
}

const lengthBytes = 1024;
const little = true;

const layouts: Readonly<Record<Filesystem, Layout>> = {
  ext4: {
    offsetBytes: 1024,
    parse(block) {
      const logBlockSize = block.getUint32(0x18, little);
      if (block.getUint16(0x38, little) !== 0xef53 || logBlockSize > 6) return undefined;
      const has64Bits = (block.getUint32(0x60, little) & 0x80) !== 0;
      const high = has64Bits ? block.getUint32(0x150, little) : 0;
      const blocks = (BigInt(high) << 32n) | BigInt(block.getUint32(0x04, little));
      return { sizeBytes: blocks << BigInt(10 + logBlockSize), isUnfinished: false }; // mkfs writes it last
    },
  },
  xfs: {
    offsetBytes: 0,
    parse(block) {
      if (block.getUint32(0) !== 0x58465342) return undefined; // XFSB
      const sizeBytes = block.getBigUint64(8) * BigInt(block.getUint32(4));
      return { sizeBytes, isUnfinished: block.getUint8(126) !== 0 }; // mkfs writes it first, marked as in progress
    },
  },
  btrfs: {
    offsetBytes: 65_536,
    parse(block) {
      if (block.getBigUint64(0x40, little) !== 0x4d5f53665248425fn) return undefined; // _BHRfS_M
      const sizeBytes = block.getBigUint64(0xd1, little); // of the device that this superblock is on
      return { sizeBytes, isUnfinished: false }; // mkfs writes it with another magic until it is done
    },
  },
};

/**
 * Reads of disks that hang hold threads, which all file work of the process shares. So a device is read once at a time,
 * and so many at once of those whose names are in one directory: a volume group's, or all loop or LUKS devices. Beyond that
 * the answer is `busy`: a command does what is needed, or the caller tries again.
 */
const readsAtOnce = 8;

/**
 * Looks at the device itself and runs no command. For one's own work, to know it again: whether a device is empty is
 * for a probe to say, which knows everything that could be there.
 */
export function superblockReader(read: ReadBlock = readBlock): ReadSuperblock {
  const underWay = new Set<string>();
  return async (devicePath, filesystem, signal) => {
    const beside = [...underWay].filter((path) => dirname(path) === dirname(devicePath));
    if (beside.includes(devicePath) || beside.length >= readsAtOnce) return 'busy';
    underWay.add(devicePath);
    const reading = read(devicePath, layouts[filesystem].offsetBytes).finally(() => underWay.delete(devicePath));
    const bytes = await abortable(reading, signal);
    return bytes && parseSuperblock(filesystem, bytes);
  };
}

/** Undefined if the device is too short. */
type ReadBlock = (devicePath: string, offsetBytes: number) => Promise<Uint8Array | undefined>;

const readBlock: ReadBlock = async (devicePath, offsetBytes) => {
  await using device = await open(devicePath, 'r');
  const { buffer, bytesRead } = await device.read(Buffer.alloc(lengthBytes), 0, lengthBytes, offsetBytes);
  return bytesRead < lengthBytes ? undefined : buffer;
};

/** The 1024 bytes at the place where such a filesystem has its superblock. */
export function parseSuperblock(filesystem: Filesystem, bytes: Uint8Array): Superblock | undefined {
  const block = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = layouts[filesystem].parse(block);
  return found && { filesystem, ...found };
}
