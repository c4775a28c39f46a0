import { MoorageError } from '../../base/errors.ts';
import type { Lvm } from './lvm.ts';

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
