import type { Volume } from './pool.ts';

/** Tags are kept with the volume on the disk itself, so they survive the loss of the cluster. */
const filesystemPrefix = 'moorage.dev/filesystem=';

/** Set by the pool that made the volume: what is found on it is known to be ours, or known not to be. */
export const createdTag = 'moorage.dev/created';

/** Set before the first byte is destroyed: the volume must never be used again, whatever is still on it. */
export const erasingTag = 'moorage.dev/erasing';

/** Set once a filesystem has been made: a volume that carries it is never formatted again. */
export function filesystemTag(filesystem: string): string {
  return `${filesystemPrefix}${filesystem}`;
}

/** The filesystem that was once made on the volume, whatever its device says today. */
export function formattedAs(volume: Volume): string | undefined {
  return volume.tags.find((tag) => tag.startsWith(filesystemPrefix))?.slice(filesystemPrefix.length);
}
