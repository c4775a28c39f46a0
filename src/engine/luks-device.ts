import type { VolumeId } from './pool.ts';

/** Where an encrypted volume is read and written while it is open. */
export function luksDevicePath(id: VolumeId): string {
  return `/dev/mapper/${mappingName(id)}`;
}

/** LVM doubles the dashes of names, so none of its volumes has this one: volume `data` of a group `moorage` is `moorage-data`. */
export function mappingName(id: VolumeId): string {
  return `moorage-luks-${id}`;
}
