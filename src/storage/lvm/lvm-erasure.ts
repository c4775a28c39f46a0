import { MoorageError } from '../../base/errors.ts';
import type { ErasePolicy } from '../device-classes.ts';
import { mustBeErasable } from '../eraser.ts';
import { erasureIn, erasureTags, isErasureTag, isProgressTag, progressTag } from '../erasure.ts';
import type { Erasures } from '../erasures.ts';
import { VolumeInUse } from '../errors.ts';
import { sourceIn } from '../tags.ts';
import { askLvm } from './effect.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';
import { changeTags } from './volume-tags.ts';

/** An erasure goes on whoever leaves; the deadline of each LVM command bounds it. */
const neverAborted = new AbortController().signal;

/** Within `change`: from here on the volume is nobody's, and only its destruction goes on. */
export async function markForErasure(group: VolumeGroup, volume: LogicalVolume, policy: ErasePolicy): Promise<void> {
  if (!erasureIn(volume.tags)) {
    await mustBeErasable(
      { kind: kindOf(volume), path: volume.path, isCopy: sourceIn(volume.tags) !== undefined },
      policy,
    );
    group.mustHaveNoSnapshots(volume.name);
    await mustBeClosed(group, volume);
    const add = erasureTags(policy);
    const remove = volume.tags.filter((tag) => isErasureTag(tag) && !add.includes(tag));
    await changeTags(group, volume, { add: add.filter((tag) => !volume.tags.includes(tag)), remove });
  }
  const marked = group.get(volume.name);
  if (!marked || !isReadOnly(marked)) return;
  await group.execute(['lvchange', '--yes', '--permission', 'rw', `${group.name}/${marked.name}`], askLvm);
}

/** Starts or goes on with the erasure of each volume that is marked for it. */
export function resumeErasures(group: VolumeGroup, volumes: readonly LogicalVolume[], erasures: Erasures): void {
  for (const volume of volumes) {
    const record = erasureIn(volume.tags);
    if (!record) continue;
    const { name: id, path, sizeBytes } = volume;
    erasures.add({
      ...record,
      id,
      target: { kind: kindOf(volume), path, sizeBytes },
      record: (cleanBytes) => recordProgress(group, id, cleanBytes),
      release: () => group.removals.remove(id, mustBeMarked, neverAborted),
    });
  }
}

function mustBeMarked({ name, tags }: LogicalVolume): void {
  if (!erasureIn(tags)) throw new NotMarked(`volume ${name} is no longer marked for erasure; remove it again`);
}

/** Somebody has taken the mark off a volume, or made another one of its name. */
class NotMarked extends MoorageError {
  readonly code = 'Aborted';
}

async function recordProgress(group: VolumeGroup, id: string, cleanBytes: bigint): Promise<void> {
  await group.change(neverAborted, async () => {
    const volume = group.get(id);
    if (!volume) return;
    mustBeMarked(volume);
    await changeTags(group, volume, { add: [progressTag(cleanBytes)], remove: volume.tags.filter(isProgressTag) });
  });
}

async function mustBeClosed(group: VolumeGroup, { name, path }: LogicalVolume): Promise<void> {
  await group.ask();
  if (group.get(name)?.attr.charAt(5) === 'o') throw new VolumeInUse(name, path);
}

function kindOf({ pool }: LogicalVolume): 'thick' | 'thin' {
  return pool === undefined ? 'thick' : 'thin';
}
