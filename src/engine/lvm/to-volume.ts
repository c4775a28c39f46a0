import type { Volume } from '../pool.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';

/** A volume that did not change is the same object in every list: others keep what they made of it. */
const asVolumes = new WeakMap<LogicalVolume, Volume>();

/** A logical volume as those who use pools see it. */
export function toVolume(volume: LogicalVolume): Volume {
  const known = asVolumes.get(volume);
  if (known) return known;
  const { name, sizeBytes, path, tags, attr, origin } = volume;
  const readOnly = isReadOnly(volume);
  const made = { id: name, sizeBytes, devicePath: path, tags, readOnly, attr, ...(origin !== undefined && { origin }) };
  asVolumes.set(volume, made);
  return made;
}
