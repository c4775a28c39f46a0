import type { Volume } from '../pool.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';

/** An unchanged volume is the same object in every list, so that others can cache by it. */
const asVolumes = new WeakMap<LogicalVolume, Volume>();

/** Converts a logical volume to the form that pools return. */
export function toVolume(volume: LogicalVolume): Volume {
  const known = asVolumes.get(volume);
  if (known) return known;
  const { name, sizeBytes, path, tags, attr, origin } = volume;
  const readOnly = isReadOnly(volume);
  const made = { id: name, sizeBytes, devicePath: path, tags, readOnly, attr, ...(origin !== undefined && { origin }) };
  asVolumes.set(volume, made);
  return made;
}
