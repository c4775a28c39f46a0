import { capacityAnnotationPrefix, defaultCapacityAnnotation } from '../../api/names.ts';
import type { DeviceClass } from '../../engine/config/device-classes.ts';

/** What Kubernetes takes in the name of an annotation. Device classes have such names; volume groups need not, as `vg+1`. */
const annotationName = /^(?=.{1,63}$)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

/**
 * What a Node's capacity annotations should be, in bytes: each class by its name, a volume group by its own where it can
 * be, and the default class once more. A volume group has the room of its thick class, or else of the roomiest of its thin
 * ones. Where a class and a volume group share a name, it means the class.
 */
export function capacityAnnotations(
  classes: readonly DeviceClass[],
  freeBytes: (className: string) => bigint,
): ReadonlyMap<string, string> {
  const free = new Map<string, bigint>();
  for (const group of new Set(classes.flatMap((its) => (its.type === 'file' ? [] : its.volumeGroup)))) {
    if (annotationName.test(group)) free.set(group, roomOf(group, classes, freeBytes));
  }
  for (const { name } of classes) free.set(name, freeBytes(name));
  const annotations = new Map(
    [...free].map(([name, bytes]) => [`${capacityAnnotationPrefix}${name}`, String(bytes)] as const),
  );
  const byDefault = classes.find(({ isDefault }) => isDefault);
  if (byDefault) annotations.set(defaultCapacityAnnotation, String(freeBytes(byDefault.name)));
  return annotations;
}

function roomOf(group: string, classes: readonly DeviceClass[], freeBytes: (className: string) => bigint): bigint {
  const inGroup = classes.filter((its) => its.type !== 'file' && its.volumeGroup === group);
  const thick = inGroup.filter(({ type }) => type === 'thick');
  const rooms = (thick.length > 0 ? thick : inGroup).map(({ name }) => freeBytes(name));
  return rooms.reduce((most, room) => (room > most ? room : most), 0n);
}
