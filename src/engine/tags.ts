import type { Volume } from './pool.ts';

/** Tags are kept with the volume on the disk itself, so they survive the loss of the cluster. */
const ownPrefix = 'moorage.dev/';
const filesystemPrefix = 'moorage.dev/filesystem=';
const encryptedPrefix = 'moorage.dev/encrypted=';
const sourcePrefix = 'moorage.dev/source=';
/** Whose data it is, as the caller tells. Such callers set another tag before a volume is used for the first time. */
const ownerPrefixes = [
  ...['moorage.dev/claim=', 'moorage.dev/volume=', 'moorage.dev/pod='],
  'standalone.moorage.dev/volume=',
];

/** Set by the pool that made the volume: what is found on it is known to be ours, or known not to be. */
export const createdTag = 'moorage.dev/created';

/** Set on a snapshot or clone: what it was made of, even after that is gone. */
export function sourceTag(source: string): string {
  return `${sourcePrefix}${source}`;
}

export function sourceIn(tags: readonly string[]): string | undefined {
  return tags.find((tag) => tag.startsWith(sourcePrefix))?.slice(sourcePrefix.length);
}

/** A copy carries it until it is handed out for the first time: what still has it after a crash was never used. */
export const unfinishedTag = 'moorage.dev/unfinished';

/**
 * A volume carries it from its creation by an engine that removes it together with the first tag that tells of use, and only
 * if its caller sets such a tag: what still has it was never used.
 */
export const unusedTag = 'moorage.dev/unused';

/** Set on a copy of its own, once all of its source has been read into it. */
export const copiedTag = 'moorage.dev/copied';

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

/** Set before the bare device is given away for the first time: whatever is written to it, no filesystem is made there. */
export const rawTag = 'moorage.dev/raw';

/** Set once the volume has been encrypted: what its device holds is of use only through a key. */
export const encryptedTag = `${encryptedPrefix}luks2`;

export function isEncrypted(volume: Volume): boolean {
  return volume.tags.includes(encryptedTag);
}

/** Whether a caller may have a new volume carry it. From most of our own tags a pool tells what may be done to a volume. */
export function isForNewVolume(tag: string): boolean {
  return !tag.startsWith(ownPrefix) || tag === createdTag || ownerPrefixes.some((prefix) => tag.startsWith(prefix));
}

/** Whether a caller may add it to a volume: also what tells that the volume is in use from now on. */
export function isForAnyVolume(tag: string): boolean {
  return isForNewVolume(tag) || tellsOfUse(tag);
}

/** Whether somebody may have written data to the volume that carries it, or to the one that it is a copy of. */
export function tellsOfUse(tag: string): boolean {
  return tag === rawTag || tag.startsWith(filesystemPrefix) || tag.startsWith(encryptedPrefix);
}

/** Whether the caller for whom a volume is created records its first use by a tag. */
export function recordsUse(tags: readonly string[]): boolean {
  return tags.some((tag) => ownerPrefixes.some((prefix) => tag.startsWith(prefix)));
}

/** What a copy of a volume takes over from it: the tags that tell what is on its device. */
export function contentTags(tags: readonly string[]): readonly string[] {
  return tags.filter((tag) => tag === createdTag || tellsOfUse(tag));
}

/** Whether a volume that has the wanted name is ours: by our mark, or by the very tags that are wanted. */
export function isMadeHere(tags: readonly string[], wantedTags: readonly string[]): boolean {
  const isWanted = wantedTags.length > 0 && wantedTags.every((tag) => tags.includes(tag));
  return isWanted || tags.includes(createdTag) || sourceIn(tags) !== undefined;
}
