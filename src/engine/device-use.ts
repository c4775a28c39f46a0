import { constants, open, readFile } from 'node:fs/promises';
import { blockDeviceAt } from '../base/device-number.ts';
import { parseMountInfo } from '../base/mountinfo.ts';
import { VolumeInUse } from './errors.ts';
import type { VolumeId } from './pool.ts';

/** Filesystems with device nodes. Others are not accessed, as they could be on a server that does not answer. */
const withDeviceNodes: ReadonlySet<string> = new Set(['devtmpfs', 'tmpfs']);

/**
 * A raw volume is published by a bind mount of its device node. A pod can open that node at any time, and would get
 * whichever volume has the device number by then: so the volume is in use, open or not. The kernel lists all these
 * mounts, also those from before a restart.
 */
export async function mustNotBeBound(id: VolumeId, devicePath: string): Promise<void> {
  const device = await blockDeviceAt(devicePath);
  if (device === undefined) return;
  for (const { root, filesystem, target } of parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'))) {
    const mayBeNode = root !== '/' && withDeviceNodes.has(filesystem);
    if (mayBeNode && (await blockDeviceAt(target)) === device) throw new VolumeInUse(id, target);
  }
}

/** Whether a device is open exclusively: mounted, or under another device. One that cannot be opened at all is not held. */
export async function isHeld(path: string): Promise<boolean> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_EXCL);
    await file.close();
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EBUSY';
  }
}
