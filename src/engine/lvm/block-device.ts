import { constants, open, readFile, stat } from 'node:fs/promises';
import { deviceNumber } from '../../base/device-number.ts';

const sectorBytes = 512n;

/** The size of a block device as the kernel has it now; undefined if there is no such device. */
export async function deviceSizeBytes(path: string): Promise<bigint | undefined> {
  try {
    const { rdev } = await stat(path, { bigint: true });
    return BigInt((await readFile(`/sys/dev/block/${deviceNumber(rdev)}/size`, 'utf8')).trim()) * sectorBytes;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Whether the kernel holds a device for somebody: it is mounted, or another device stands on it. */
export async function isHeld(path: string): Promise<boolean> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_EXCL);
    await file.close();
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EBUSY'; // whatever else it is, LVM will say
  }
}
