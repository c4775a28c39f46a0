import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { abortable } from '../base/abortable.ts';
import type { Filesystem } from './filesystem.ts';

/** The superblock of a filesystem, at its fixed place on the device. */
export interface Superblock {
  readonly filesystem: Filesystem;
  /** How much of its device the filesystem uses. */
  readonly sizeBytes: bigint;
  /** mkfs did not finish, so it was never mounted. */
  readonly isUnfinished: boolean;
}

/**
 * Undefined if this kind of filesystem is not there, though something else may be. Busy if other devices block all reads
 * now: nothing may be decided on that.
 */
export type ReadSuperblock = (
  devicePath: string,
  filesystem: Filesystem,
  signal: AbortSignal,
) => Promise<Superblock | 'busy' | undefined>;

interface Layout {
  readonly offsetBytes: number;
  /** Undefined if this is not a superblock of this kind. */
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
 * Reads of hung disks block threads that all file I/O of the process shares. So each device has one read at a time, and
 * each directory of devices (a volume group, or all loop or LUKS devices) this many. Beyond that the answer is `busy`:
 * the caller runs a command instead, or retries.
 */
const readsAtOnce = 8;

/**
 * Reads the device and runs no command. Only for recognising our own filesystems: whether a device is empty must be
 * decided by a probe, which knows all signatures.
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

/** `bytes` are the 1024 bytes at the superblock's offset of this kind of filesystem. */
export function parseSuperblock(filesystem: Filesystem, bytes: Uint8Array): Superblock | undefined {
  const block = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = layouts[filesystem].parse(block);
  return found && { filesystem, ...found };
}
