import type { VolumeId } from './pool.ts';

/** The decrypted device of an encrypted volume while it is open. */
export function luksDevicePath(id: VolumeId): string {
  return `/dev/mapper/${mappingName(id)}`;
}

/** No LVM device has this name, as LVM doubles dashes: volume `data` of a group `moorage` is `moorage-data`. */
export function mappingName(id: VolumeId): string {
  return `moorage-luks-${id}`;
}
