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

/** Device mapper joins the two names by a dash, so their own are doubled. */
export function deviceMapperName(group: string, volume: string): string {
  return `${group.replaceAll('-', '--')}-${volume.replaceAll('-', '--')}`;
}
