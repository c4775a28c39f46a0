import type { ErasePolicy } from '../config/device-classes.ts';
import { mustNotBeBound } from '../device-use.ts';
import { mustBeErasable } from '../erase/eraser.ts';
import {
  ErasureCalledOff,
  erasureIn,
  erasureTags,
  isErasureTag,
  isProgressTag,
  progressTag,
} from '../erase/erasure.ts';
import type { Erasures } from '../erase/erasures.ts';
import { VolumeInUse } from '../errors.ts';
import { sourceIn } from '../tags.ts';
import { askLvm } from './effect.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';
import { changeTags } from './volume-group.ts';

/** An erasure continues when its caller leaves; the timeout of each LVM command bounds it. */
const neverAborted = new AbortController().signal;

/** Within `change`, on a fresh report: from here on the volume is unusable, and can only be erased. */
export async function markForErasure(group: VolumeGroup, volume: LogicalVolume, policy: ErasePolicy): Promise<void> {
  if (!erasureIn(volume.tags)) {
    await mustBeErasable(
      { kind: kindOf(volume), path: volume.path, isCopy: sourceIn(volume.tags) !== undefined },
      policy,
    );
    group.mustHaveNoSnapshots(volume.name);
    if (volume.attr.charAt(5) === 'o') throw new VolumeInUse(volume.name, volume.path);
    await mustNotBeBound(volume.name, volume.path);
    const add = erasureTags(policy);
    const remove = volume.tags.filter((tag) => isErasureTag(tag) && !add.includes(tag));
    await changeTags(group, volume, { add: add.filter((tag) => !volume.tags.includes(tag)), remove });
  }
  const marked = group.get(volume.name);
  if (!marked || !isReadOnly(marked)) return;
  await group.execute(['lvchange', '--yes', '--permission', 'rw', `${group.name}/${marked.name}`], askLvm);
}

/** Starts or resumes the erasure of each marked volume. */
export function resumeErasures(group: VolumeGroup, volumes: readonly LogicalVolume[], erasures: Erasures): void {
  for (const volume of volumes) {
    const record = erasureIn(volume.tags);
    const { name: id, uuid, path, sizeBytes } = volume;
    if (!record || uuid === undefined) continue;
    const mustBeSame = (found: LogicalVolume | undefined) => mustBeMarked(id, uuid, found);
    const knowing = <T>(signal: AbortSignal, work: (same: LogicalVolume) => Promise<T>) =>
      group.changeSurely(signal, async () => work(mustBeSame(group.get(id))));
    erasures.add({
      ...record,
      id,
      target: {
        ...{ kind: kindOf(volume), path, sizeBytes },
        mustBeSame: (signal) => knowing(signal, async () => undefined),
      },
      record: (cleanBytes) => knowing(neverAborted, (same) => recordProgress(group, same, cleanBytes)),
      release: () => group.removals.remove(id, (found) => Boolean(mustBeSame(found)), neverAborted),
    });
  }
}

/** Somebody may have removed the mark, or created another volume with the same name. */
function mustBeMarked(id: string, uuid: string, found: LogicalVolume | undefined): LogicalVolume {
  if (found && found.uuid === uuid && erasureIn(found.tags)) return found;
  throw new ErasureCalledOff(id);
}

async function recordProgress(group: VolumeGroup, volume: LogicalVolume, cleanBytes: bigint): Promise<void> {
  const remove = volume.tags.filter(isProgressTag);
  await changeTags(group, volume, { add: [progressTag(cleanBytes)], remove });
}

function kindOf({ pool }: LogicalVolume): 'thick' | 'thin' {
  return pool === undefined ? 'thick' : 'thin';
}
