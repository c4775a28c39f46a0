import { readFile, stat, statfs } from 'node:fs/promises';
import { deviceNumber } from '../../base/device-number.ts';
import { MoorageError } from '../../base/errors.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { NotToBeEmptied, SnapshotUnsupported } from '../errors.ts';
import type { VolumeId } from '../pool.ts';
import { overwritesIn } from './erase-policy.ts';
import type { ErasureTarget } from './eraser.ts';

/** The volume's disk or filesystem cannot do what the class promises. */
export class EraseUnsupported extends MoorageError {
  readonly code = 'FailedPrecondition';
}

const btrfs = 0x9123683en;

/**
 * A thin pool writes blocks that two volumes ever shared to a new place, even when only one volume is left, so they
 * cannot be overwritten. A class or volume with such a policy therefore allows no sharing at all.
 */
export function mustAllowThinSnapshots(what: string, policy: ErasePolicy): void {
  if (!overwritesIn(policy)) return;
  throw new SnapshotUnsupported(
    `${what} has no snapshots or clones, as erase: ${policy.kind} could not overwrite the blocks that they share; ` +
      'use erase: discard or none',
  );
}

/** To be checked before a volume is marked: a mark cannot be taken back. */
export async function mustBeErasable(
  { kind, path, sharesBlocks = false }: Pick<ErasureTarget, 'kind' | 'path'> & { readonly sharesBlocks?: boolean },
  policy: ErasePolicy,
): Promise<void> {
  const overwrites = overwritesIn(policy);
  if (overwrites && kind === 'thin' && sharesBlocks) {
    throw new EraseUnsupported(
      `erase: ${policy.kind} is not possible for ${path}: a thin pool never overwrites blocks in place that it shares with ` +
        'a snapshot or clone; use discard or none',
    );
  }
  if (kind === 'file') {
    if (!overwrites || (await statfs(path, { bigint: true })).type !== btrfs) return;
    throw new EraseUnsupported(
      `erase: ${policy.kind} is not possible for ${path}: btrfs never overwrites data in place; ` +
        'use discard or none, or a directory on ext4 or xfs',
    );
  }
  const discards = policy.kind === 'discard' || (kind === 'thin' && overwrites);
  if (!discards || (await canDiscard(path))) return;
  throw new EraseUnsupported(
    `erase: ${policy.kind} is not possible for ${path}: it does not support discards; ` +
      (kind === 'thin' ? 'allow discards for its thin pool' : 'use zero or shred'),
  );
}

/** To be checked, too, before a volume is marked to be emptied. */
export function mustStandAlone(
  id: VolumeId,
  { source, readOnly }: { readonly source: VolumeId | undefined; readonly readOnly: boolean },
): void {
  if (source !== undefined) throw new NotToBeEmptied(id, `it is a copy of ${source}`);
  if (readOnly) throw new NotToBeEmptied(id, 'it is read-only');
}

/** Whether all disks below a device support discards. */
export async function canDiscard(devicePath: string): Promise<boolean> {
  const { rdev } = await stat(devicePath, { bigint: true });
  const limit = await readFile(`/sys/dev/block/${deviceNumber(rdev)}/queue/discard_max_bytes`, 'utf8');
  return Number(limit) > 0;
}
