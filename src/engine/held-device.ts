import { type FileHandle, open, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { deviceNumber, splitDeviceNumber } from '../base/device-number.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import { VolumeInactive } from './errors.ts';
import { imageName } from './file/volume-files.ts';
import type { Volume } from './pool.ts';

/** The kernel's number for all loop devices. */
const loopMajor = 7;

/**
 * Opens the device of a volume that is about to be used. Until it is closed, no removal takes the volume away, and the
 * kernel gives the number of its loop device to no other file: that it is the right one is seen under the same handle.
 * The names of LVM's devices are those of their volumes, and reach no other.
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

/** By its name, as the path may differ between mount namespaces; ids of volumes are unique on a node. */
async function mustBeOf(id: string, devicePath: string, number: string): Promise<void> {
  const backing = await readFile(`/sys/dev/block/${number}/loop/backing_file`, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''; // attached to nothing
    throw error;
  });
  if (basename(backing.trimEnd()) !== imageName(id)) throw new DeviceTakenAway(id, devicePath);
}

/** The volume was removed, or its device detached, since it was looked up. */
export class DeviceTakenAway extends MoorageError {
  readonly code = 'Unavailable';

  constructor(id: string, devicePath: string) {
    super(`${devicePath} is no longer the device of volume ${id}; ask again`);
  }
}
