import {
  DeviceUnreadable,
  FilesystemForeign,
  FilesystemMismatch,
  FilesystemVanished,
  filesystemUuid,
} from './filesystem.ts';
import type { Volume } from './pool.ts';
import type { Probe } from './probe.ts';
import { formattedAs, isEncrypted } from './tags.ts';

export const luks = 'crypto_LUKS';

/**
 * The only place that allows a LUKS header to be written. What we wrote is known by the tag, or by the UUID that follows
 * from the volume's id while the tag is not set yet.
 */
export function decideEncryption(volume: Volume, probe: Probe): 'format' | 'keep' {
  if (probe.kind === 'unknown') throw new DeviceUnreadable(volume.id, probe.reason);
  if (probe.kind === 'found') {
    if (probe.filesystem !== luks) throw new FilesystemMismatch(volume.id, luks, probe.filesystem);
    if (isEncrypted(volume) || probe.uuid === filesystemUuid(volume.id)) return 'keep';
    throw new FilesystemForeign(volume.id, luks);
  }
  const before = isEncrypted(volume) ? luks : formattedAs(volume);
  if (before) throw new FilesystemVanished(volume.id, before);
  return 'format';
}
