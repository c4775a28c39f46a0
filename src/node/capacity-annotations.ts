import { capacityAnnotationPrefix, defaultCapacityAnnotation } from '../names.ts';
import type { DeviceClass } from '../storage/device-classes.ts';

/**
 * What a Node's capacity annotations should be, in bytes: each class by its name, a volume group by its own, and the
 * default class once more. Where a class and a volume group share a name, it means the class.
 */
export function capacityAnnotations(
  classes: readonly DeviceClass[],
  freeBytes: (className: string) => bigint,
): ReadonlyMap<string, string> {
  const annotations = new Map<string, string>();
  for (const deviceClass of classes) {
    const free = String(freeBytes(deviceClass.name));
    if (deviceClass.type === 'thick') annotations.set(`${capacityAnnotationPrefix}${deviceClass.volumeGroup}`, free);
    if (deviceClass.isDefault) annotations.set(defaultCapacityAnnotation, free);
  }
  for (const { name } of classes) annotations.set(`${capacityAnnotationPrefix}${name}`, String(freeBytes(name)));
  return annotations;
}

/** The changes that make them so: null removes an annotation of a class that is no more. Empty if all is well. */
export function annotationChanges(
  current: Readonly<Record<string, string>>,
  wanted: ReadonlyMap<string, string>,
): Record<string, string | null> {
  const changes: Record<string, string | null> = {};
  for (const [key, value] of wanted) if (current[key] !== value) changes[key] = value;
  for (const key of Object.keys(current)) {
    if (key.startsWith(capacityAnnotationPrefix) && !wanted.has(key)) changes[key] = null;
  }
  return changes;
}
