import { readFile, stat } from 'node:fs/promises';

/** The kernel's unit of device sizes, whatever the device's own is. */
const sectorBytes = 512n;

/** The kernel's numbers of a device. */
export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

/** Linux splits both numbers over the bits of stat's rdev: 12 and 8 bits in the middle, the rest around them. */
export function splitDeviceNumber(device: bigint): DeviceNumber {
  return {
    major: Number(((device >> 8n) & 0xfffn) | ((device >> 32n) & 0xfffff000n)),
    minor: Number((device & 0xffn) | ((device >> 12n) & 0xffffff00n)),
  };
}

/** `major:minor` of a device. */
export function deviceNumber(device: bigint): string {
  const { major, minor } = splitDeviceNumber(device);
  return `${major}:${minor}`;
}

/** `major:minor` of a block device; undefined if there is none at that path. */
export async function blockDeviceAt(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path, { bigint: true });
    return found.isBlockDevice() ? deviceNumber(found.rdev) : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The current size of a block device in the kernel; undefined if it does not exist. */
export async function deviceSizeBytes(path: string): Promise<bigint | undefined> {
  try {
    const { rdev } = await stat(path, { bigint: true });
    return BigInt((await readFile(`/sys/dev/block/${deviceNumber(rdev)}/size`, 'utf8')).trim()) * sectorBytes;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
