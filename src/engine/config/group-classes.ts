import type { DeviceClass, ThickClass } from './device-classes.ts';

/** Reads well in messages, after "device class". No configured class has such a name, as lvmd.yaml allows no space in it. */
const namePrefix = 'of volume group ';

/** Whether the class is not configured: it serves volumes that name a volume group instead of a class. */
export function isGroupClass({ name }: Pick<DeviceClass, 'name'>): boolean {
  return name.startsWith(namePrefix);
}

/** The configured classes, and a class for each of these volume groups that has no thick one. */
export function withGroupClasses(
  configured: readonly DeviceClass[],
  volumeGroups: ReadonlySet<string>,
): readonly DeviceClass[] {
  const served = new Set(configured.flatMap((each) => (each.type === 'thick' ? each.volumeGroup : [])));
  return [...configured, ...[...volumeGroups.difference(served)].map(groupClass)];
}

function groupClass(volumeGroup: string): ThickClass {
  return {
    type: 'thick',
    name: `${namePrefix}${volumeGroup}`,
    isDefault: false,
    spareBytes: 0n,
    erase: { kind: 'none' },
    volumeGroup,
    stripes: 0,
    stripeSize: undefined,
    lvcreateOptions: [],
    snapshots: 'none',
  };
}
