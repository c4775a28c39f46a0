import { constants, open, readFile, stat } from 'node:fs/promises';
import { deviceNumber } from '../../base/device-number.ts';

const sectorBytes = 512n;

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

/** Whether a device is in use: mounted, or under another device. */
export async function isHeld(path: string): Promise<boolean> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_EXCL);
    await file.close();
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EBUSY'; // LVM reports any other error
  }
}
