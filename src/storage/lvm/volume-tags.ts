import type { LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';

/** Within `changeSurely`, as LVM changes tags even if a disk is missing: adds and removes tags of a volume in one command. */
export async function changeTags(
  group: VolumeGroup,
  volume: LogicalVolume,
  { add, remove }: { readonly add: readonly string[]; readonly remove: readonly string[] },
): Promise<void> {
  const tags = [...volume.tags.filter((tag) => !remove.includes(tag)), ...add];
  const words = [...remove.flatMap((tag) => ['--deltag', tag]), ...add.flatMap((tag) => ['--addtag', tag])];
  await group.execute(['lvchange', '--yes', ...words, `${group.name}/${volume.name}`], {
    steps: 1,
    apply: () => group.put({ ...volume, tags }, 0n),
  });
}
