import { MoorageError } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { Lvm } from './lvm.ts';
import type { VolumeGroup } from './volume-group.ts';

const sectorBytes = 512n;

/** The device of a thin volume has not become what it should. */
export class ThinDeviceOdd extends MoorageError {
  readonly code = 'Internal';
}

/**
 * Lets the device of a thin volume grow to the size that LVM has written down for it. LVM would suspend the whole pool
 * for that, and with it every volume: one after the other, each with its writes held up, for seconds where there are
 * many. The pool need not know, though; only the volume's own table changes.
 */
export async function stretchThinDevice(
  lvm: Lvm,
  {
    group,
    volume,
    sizeBytes,
    readOnly,
  }: {
    readonly group: string;
    readonly volume: string;
    readonly sizeBytes: bigint;
    readonly readOnly: boolean;
  },
): Promise<void> {
  const device = deviceMapperName(group, volume);
  const table = stretchedTable(await lvm.tool('dmsetup', ['table', device]), sizeBytes / sectorBytes);
  if (table === undefined) return;
  await lvm.tool('dmsetup', ['load', device, ...(readOnly ? ['--readonly'] : []), '--table', table]);
  await lvm.tool('dmsetup', ['resume', device]);
}

/** The same table over more sectors; undefined if it has as many already. A table never shrinks. */
export function stretchedTable(table: string, sectors: bigint): string | undefined {
  const match = /^0 (\d+) (thin \d+:\d+ \d+(?: \d+:\d+)?)$/.exec(table.trim());
  if (!match)
    throw new ThinDeviceOdd(`a thin volume has the table ${JSON.stringify(table)}; refresh it with lvchange --refresh`);
  const [, present = '', target] = match;
  return BigInt(present) >= sectors ? undefined : `0 ${sectors} ${target}`;
}

/** How full a thin pool is, in per cent. */
export interface ThinUsage {
  readonly dataPercent: number;
  readonly metadataPercent: number;
}

/**
 * As the kernel counts now. It takes a fraction of what LVM would to say the same, and neither lock nor disk. A pool has a
 * device of this name once it has volumes.
 */
export async function thinPoolUsage(lvm: Lvm, group: string, pool: string): Promise<ThinUsage> {
  const device = `${deviceMapperName(group, pool)}-tpool`;
  return parseThinPoolStatus(await lvm.tool('dmsetup', ['status', '--noflush', device]));
}

/** `0 524288 thin-pool 1 13/1024 1200/4096 - rw …`: used blocks of metadata, then of data. */
export function parseThinPoolStatus(status: string): ThinUsage {
  const [, usedMetadata, metadata, usedData, data] =
    /^\d+ \d+ thin-pool \d+ (\d+)\/(\d+) (\d+)\/(\d+) /.exec(status.trim()) ?? [];
  if (!Number(metadata) || !Number(data)) {
    throw new ThinDeviceOdd(
      `a thin pool has the status ${JSON.stringify(status.trim())}; if it has failed, repair it with lvconvert --repair`,
    );
  }
  return { dataPercent: percent(usedData, data), metadataPercent: percent(usedMetadata, metadata) };
}

/** With two digits, as LVM shows it. */
function percent(used: string | undefined, of: string | undefined): number {
  return Math.round((Number(used) / Number(of)) * 10_000) / 100;
}

/** Device mapper joins the two names by a dash, so their own are doubled. */
export function deviceMapperName(group: string, volume: string): string {
  return `${group.replaceAll('-', '--')}-${volume.replaceAll('-', '--')}`;
}

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
