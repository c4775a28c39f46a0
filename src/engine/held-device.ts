import { type FileHandle, open, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { deviceNumber, splitDeviceNumber } from '../base/device-number.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import { VolumeInactive } from './errors.ts';
import { imageName } from './file/volume-files.ts';
import type { Volume } from './pool.ts';

/** The kernel's major number of loop devices. */
const loopMajor = 7;

/**
 * Opens the device of a volume that is about to be used. While it is open, the volume cannot be removed and the kernel
 * does not attach another file to its loop device, so the check of the backing file stays valid. LVM's device names
 * always mean their volume.
 */
export async function holdDevice({ id, devicePath }: Volume): Promise<FileHandle> {
  const device = await open(devicePath, 'r').catch((cause: unknown) => {
    throw new VolumeInactive(id, messageOf(cause), { cause });
  });
  try {
    const { rdev } = await device.stat({ bigint: true });
    if (splitDeviceNumber(rdev).major === loopMajor) await mustBeOf(id, devicePath, deviceNumber(rdev));
    return device;
  } catch (error) {
    await device.close();
    throw error;
  }
}

/** Compares names, as paths may differ between mount namespaces; volume ids are unique on a node. */
async function mustBeOf(id: string, devicePath: string, number: string): Promise<void> {
  const backing = await readFile(`/sys/dev/block/${number}/loop/backing_file`, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''; // attached to nothing
    throw error;
  });
  if (basename(backing.trimEnd()) !== imageName(id)) throw new DeviceGone(id, devicePath);
}

/** The volume was removed, or its device detached, after the lookup. */
export class DeviceGone extends MoorageError {
  readonly code = 'Unavailable';

  constructor(id: string, devicePath: string) {
    super(`${devicePath} is no longer the device of volume ${id}; retry`);
  }
}
