import type { ErasePolicy } from '../config/device-classes.ts';
import { mustNotBeBound } from '../device-use.ts';
import { mustBeErasable } from '../erase/erasable.ts';
import { emptiedTags, erasureIn, markedTags, progressedTags } from '../erase/erasure-tags.ts';
import type { Erasures } from '../erase/erasures.ts';
import { VolumeInUse } from '../errors.ts';
import { type emptyingTag, sourceIn } from '../names-and-tags.ts';
import type { ClassVolumes } from './class-volumes.ts';
import { askLvm } from './group-memory.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';

/** An erasure continues when its caller leaves; the timeout of each LVM command bounds it. */
const neverAborted = new AbortController().signal;

/** Within `change`, on a fresh report: from here on the volume is unusable, until it is erased. */
export async function markForErasure(
  group: VolumeGroup,
  volume: LogicalVolume,
  policy: ErasePolicy,
  mark?: typeof emptyingTag,
): Promise<void> {
  if (!erasureIn(volume.tags)) {
    const sharesBlocks = sourceIn(volume.tags) !== undefined || group.memory.hasSnapshots(volume.name);
    await mustBeErasable({ kind: kindOf(volume), path: volume.path, sharesBlocks }, policy);
    group.memory.mustHaveNoSnapshots(volume.name);
    if (volume.attr.charAt(5) === 'o') throw new VolumeInUse(volume.name, volume.path);
    await mustNotBeBound(volume.name, volume.path);
    await group.setTags(volume, markedTags(volume.tags, policy, mark));
  }
  const marked = group.memory.get(volume.name);
  if (!marked || !isReadOnly(marked)) return;
  await group.execute(['lvchange', '--yes', '--permission', 'rw', group.fullName(marked.name)], askLvm);
}

/** Starts or resumes the erasure of each marked volume. */
export function resumeErasures(group: VolumeGroup, volumes: ClassVolumes, erasures: Erasures): void {
  for (const volume of volumes.all()) {
    const record = erasureIn(volume.tags);
    const { name: id, uuid, path, sizeBytes } = volume;
    if (!record || uuid === undefined) continue;
    const keep = async (same: LogicalVolume) => {
      await group.setTags(same, emptiedTags(same.tags));
      volumes.rememberWiped(id);
    };
    const knowing = <T>(signal: AbortSignal, work: (same: LogicalVolume) => Promise<T>) =>
      group.changeSurely(signal, async () => work(group.memory.mustBeMarked(id, uuid)));
    erasures.add({
      ...record,
      id,
      target: {
        ...{ kind: kindOf(volume), path, sizeBytes, isKept: record.isKept },
        hasHeader: () => group.memory.hasOwnHeader(volume),
        mustBeSame: (signal) => knowing(signal, async () => undefined),
      },
      record: (cleanBytes) =>
        knowing(neverAborted, (same) => group.setTags(same, progressedTags(same.tags, cleanBytes))),
      async release() {
        if (record.isKept) await knowing(neverAborted, keep);
        else await group.remove({ name: id, erasedUuid: uuid }, neverAborted);
      },
    });
  }
}

function kindOf({ pool }: LogicalVolume): 'thick' | 'thin' {
  return pool === undefined ? 'thick' : 'thin';
}
