import { MoorageError } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { Lvm } from './lvm.ts';

const sectorBytes = 512n;

/** A thin device is not in the expected state. */
export class ThinDeviceUnexpected extends MoorageError {
  readonly code = 'Internal';
}

/**
 * Grows the device of a thin volume to its size in LVM. LVM itself would suspend the whole pool and every volume in it,
 * one after the other, which blocks writes for seconds if there are many. Only the table of the one volume has to
 * change.
 */
export async function growThinDevice(
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
  const table = grownTable(await lvm.tool('dmsetup', ['table', device]), sizeBytes / sectorBytes);
  if (table === undefined) return;
  await lvm.tool('dmsetup', ['load', device, ...(readOnly ? ['--readonly'] : []), '--table', table]);
  await lvm.tool('dmsetup', ['resume', device]);
}

/** The same table with more sectors; undefined if it has enough already. A table never shrinks. */
export function grownTable(table: string, sectors: bigint): string | undefined {
  const match = /^0 (\d+) (thin \d+:\d+ \d+(?: \d+:\d+)?)$/.exec(table.trim());
  if (!match)
    throw new ThinDeviceUnexpected(
      `cannot grow a thin volume with the table ${JSON.stringify(table)}; run lvchange --refresh`,
    );
  const [, present = '', target] = match;
  return BigInt(present) >= sectors ? undefined : `0 ${sectors} ${target}`;
}

/** Usage of a thin pool in percent. */
export interface ThinUsage {
  readonly dataPercent: number;
  readonly metadataPercent: number;
}

/**
 * Reads the usage from the kernel: far cheaper than LVM, and without a lock or a disk access. A pool has a device of
 * this name only if it has volumes.
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
    throw new ThinDeviceUnexpected(
      `unexpected thin pool status ${JSON.stringify(status.trim())}; if the pool failed, run lvconvert --repair`,
    );
  }
  return { dataPercent: percent(usedData, data), metadataPercent: percent(usedMetadata, metadata) };
}

/** Rounded to two decimals, like LVM. */
function percent(used: string | undefined, of: string | undefined): number {
  return Math.round((Number(used) / Number(of)) * 10_000) / 100;
}

/** Device mapper joins the two names with a dash and doubles the dashes within them. */
export function deviceMapperName(group: string, volume: string): string {
  return `${group.replaceAll('-', '--')}-${volume.replaceAll('-', '--')}`;
}

interface Group {
  readonly name: string;
  readonly lvm: Lvm;
}

/**
 * LVM creates a thin snapshot in the pool before it commits the metadata of the group. A power loss in between leaves a
 * device in the pool without a volume, and each later creation fails on its number. If `error` is that failure, this
 * removes the device, and the creation can be retried.
 *
 * The device cannot hold data that was ever handed out. LVM and the pool both count finished creations, and LVM has
 * found both counts equal, or it would not have sent the request. And no volume may have that number.
 */
export async function removedThinOrphan(group: Group, pool: string, error: unknown, log: Log): Promise<boolean> {
  const deviceId = orphanIn(error);
  if (deviceId === undefined || (await thinIdsIn(group, pool)).has(deviceId)) return false;
  const device = `${deviceMapperName(group.name, pool)}-tpool`;
  await group.lvm.tool('dmsetup', ['message', device, '0', `delete ${deviceId}`]);
  log.warn(
    { volumeGroup: group.name, thinPool: pool, deviceId },
    'removed a device that an interrupted creation left in the thin pool',
  );
  return true;
}

function orphanIn(error: unknown): string | undefined {
  if (!(error instanceof CommandFailed)) return undefined;
  return /already contain thin device with device_id (\d+)/.exec(error.stderr)?.[1];
}

/** Numbers are unique within one pool only. */
async function thinIdsIn({ lvm, name }: Group, pool: string): Promise<ReadonlySet<string>> {
  const words = ['lvs', '--all', '--reportformat', 'basic', '--noheadings', '-o', 'thin_id'];
  const printed = await lvm.tool('lvm', [...words, '--select', `pool_lv=${pool}`, name]);
  return new Set(printed.split(/\s+/));
}
