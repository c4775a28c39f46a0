import { capacityAnnotationPrefix, defaultCapacityAnnotation } from '../../api/names.ts';
import type { DeviceClass } from '../../engine/config/device-classes.ts';

/** A valid name of an annotation. Device classes always match; volume groups may not, such as `vg+1`. */
const annotationName = /^(?=.{1,63}$)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

/**
 * The capacity annotations of a Node, in bytes: each class by its name, each volume group whose name is valid, and the
 * default class again. A volume group has the free space of its thick class, or else the most of its thin classes. A name
 * shared by a class and a volume group means the class.
 */
export function capacityAnnotations(
  classes: readonly DeviceClass[],
  freeBytes: (className: string) => bigint,
): ReadonlyMap<string, string> {
  const free = new Map<string, bigint>();
  for (const group of new Set(
    classes.flatMap((deviceClass) => (deviceClass.type === 'file' ? [] : deviceClass.volumeGroup)),
  )) {
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
  const inGroup = classes.filter((deviceClass) => deviceClass.type !== 'file' && deviceClass.volumeGroup === group);
  const thick = inGroup.filter(({ type }) => type === 'thick');
  const rooms = (thick.length > 0 ? thick : inGroup).map(({ name }) => freeBytes(name));
  return rooms.reduce((most, room) => (room > most ? room : most), 0n);
}
