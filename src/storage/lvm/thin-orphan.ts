import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { deviceMapperName } from './thin-device.ts';
import type { VolumeGroup } from './volume-group.ts';

/**
 * LVM has a pool make a thin snapshot before it writes that down. Power lost between the two leaves a device in the pool
 * that no volume stands for, and LVM stumbles over its number at each creation from then on. It is taken away here, if
 * `error` tells of one: then the creation can be repeated.
 *
 * Nothing that anybody was ever given can be meant. LVM counts finished creations, and so does the pool; it has found both
 * counts to be the same, or it would not have asked for anything. And no volume may have that number.
 */
export async function removedThinOrphan(group: VolumeGroup, pool: string, error: unknown, log: Log): Promise<boolean> {
  const deviceId = orphanIn(error);
  if (deviceId === undefined || (await thinIdsIn(group, pool)).has(deviceId)) return false;
  const device = `${deviceMapperName(group.name, pool)}-tpool`;
  await group.lvm.tool('dmsetup', ['message', device, '0', `delete ${deviceId}`]);
  log.warn(
    { volumeGroup: group.name, thinPool: pool, deviceId },
    'an interrupted creation had left a device in the thin pool; it was removed',
  );
  return true;
}

function orphanIn(error: unknown): string | undefined {
  if (!(error instanceof CommandFailed)) return undefined;
  return /already contain thin device with device_id (\d+)/.exec(error.stderr)?.[1];
}

/** Each pool counts its own. */
async function thinIdsIn({ lvm, name }: VolumeGroup, pool: string): Promise<ReadonlySet<string>> {
  const words = ['lvs', '--all', '--reportformat', 'basic', '--noheadings', '-o', 'thin_id'];
  const printed = await lvm.tool('lvm', [...words, '--select', `pool_lv=${pool}`, name]);
  return new Set(printed.split(/\s+/));
}
