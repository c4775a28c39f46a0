import { isHeld, mustNotBeBound } from '../device-use.ts';
import { VolumeInUse, VolumeOpen } from '../errors.ts';
import type { Access } from '../pool.ts';
import { askLvm } from './group-memory.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';

/**
 * Within `changeSurely`: makes a volume read-only or writable. The kernel lets a process that has the device open go on
 * writing. So nobody may have it open before, nor after: somebody may have opened it in between.
 */
export async function setAccess(group: VolumeGroup, volume: LogicalVolume, access: Access): Promise<void> {
  if (isReadOnly(volume) === (access === 'ro')) return;
  if (access === 'rw') return setPermission(group, volume, 'rw');
  await group.ask(); // memory does not know whether the volume is open
  await mustBeClosed(group, volume);
  await setPermission(group, volume, 'r');
  try {
    await mustBeClosed(group, volume);
  } catch (error) {
    await setPermission(group, volume, 'rw');
    throw error;
  }
}

async function setPermission(group: VolumeGroup, { name }: LogicalVolume, permission: 'r' | 'rw'): Promise<void> {
  await group.execute(['lvchange', '--yes', '--permission', permission, group.fullName(name)], askLvm);
}

/** On a fresh report. */
async function mustBeClosed(group: VolumeGroup, { name, path }: LogicalVolume): Promise<void> {
  if (group.memory.get(name)?.attr.charAt(5) === 'o' || (await isHeld(path))) throw new VolumeOpen(name, path);
  await mustNotBeBound(name, path).catch((error: unknown) => {
    throw error instanceof VolumeInUse ? new VolumeOpen(name, path, { cause: error }) : error;
  });
}
