import { InvalidInput } from '../base/errors.ts';
import { parsePolicy } from './erase/erase-policy.ts';
import type { NewVolume, Volume, VolumeId } from './pool.ts';

const reservedPrefixes = ['snapshot', 'pvmove'];
const reservedParts =
  /_(cdata|cmeta|corig|cpool|cvol|imeta|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin|wcorig)/;

/** What LVM accepts as the name of a logical volume. File pools use the same rules, so that a claim can move between pools. */
export function checkVolumeId(id: VolumeId): void {
  const wrong =
    !/^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,99}$/.test(id) ||
    id === '.' ||
    id === '..' ||
    reservedParts.test(id) ||
    reservedPrefixes.some((prefix) => id.startsWith(prefix));
  if (wrong) {
    throw new InvalidInput(
      `volume name ${JSON.stringify(id.slice(0, 128))} is not allowed; use at most 100 letters, digits and "_+.-", ` +
        'not beginning with "-", "snapshot" or "pvmove", and none of the suffixes that LVM reserves',
    );
  }
}

/** What LVM accepts as the name of a volume group or thin pool. */
export const lvmNames = /^(?!\.{1,2}$)[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$/;

export function checkVolumeGroup(name: string): void {
  if (lvmNames.test(name)) return;
  throw new InvalidInput(
    `volume group name ${JSON.stringify(name.slice(0, 128))} is not allowed; use at most 127 letters, digits and "_+.-", ` +
      'not beginning with "-"',
  );
}

/** What LVM accepts as a tag. */
export function checkTags(tags: readonly string[]): void {
  for (const tag of tags) {
    if (/^[A-Za-z0-9_+./=!:&#][A-Za-z0-9_+./=!:&#-]{0,1023}$/.test(tag)) continue;
    throw new InvalidInput(
      `tag ${JSON.stringify(tag.slice(0, 128))} is not allowed; use letters, digits and "_+./=!:&#-", not beginning with "-"`,
    );
  }
}

/** The tags that a caller may set on a new volume or copy. */
export function checkNewTags(tags: readonly string[]): void {
  checkTags(tags);
  refuseOwn(tags.find((tag) => !isForNewVolume(tag)));
}

/** The tags that a caller may add to a volume. */
export function checkAddedTags(tags: readonly string[]): void {
  checkTags(tags);
  refuseOwn(tags.find((tag) => !isForAnyVolume(tag)));
}

/** With one of our own tags a caller could get a volume erased, or treated as unfinished. */
function refuseOwn(tag: string | undefined): void {
  if (tag) throw new InvalidInput(`tag ${tag.slice(0, 128)} is reserved for Moorage; leave it out`);
}

export function checkNewVolume(wanted: NewVolume): void {
  checkVolumeId(wanted.id);
  checkNewTags(wanted.tags);
  if (wanted.sizeBytes <= 0n) {
    throw new InvalidInput(`invalid size ${wanted.sizeBytes} of volume ${wanted.id}; request at least one byte`);
  }
}

/** The value of a tag `key=value`. */
export function tagValue(tags: readonly string[], key: string): string | undefined {
  return tags.find((tag) => tag.startsWith(`${key}=`))?.slice(key.length + 1);
}

/** Tags are stored on the disk with the volume, so they survive the loss of the cluster. */
const ownPrefix = 'moorage.dev/';
const filesystemKey = 'moorage.dev/filesystem';
const encryptedPrefix = 'moorage.dev/encrypted=';
const sourceKey = 'moorage.dev/source';
const onRemovalKey = 'moorage.dev/on-removal';
/** Set by the caller to name the owner: the keys for each kind of owner. Such callers set another tag before the first use. */
const owners = [
  ['moorage.dev/claim', 'moorage.dev/volume'],
  ['moorage.dev/pod'],
  ['moorage.dev/local-pv', 'moorage.dev/local-pv-uid'],
  ['standalone.moorage.dev/volume'],
];

/** Set by the pool that created the volume, so that data found on it is known to be ours or foreign. */
export const createdTag = 'moorage.dev/created';

/** Set on a snapshot or clone: its source, even after that is gone. */
export function sourceTag(source: string): string {
  return `${sourceKey}=${source}`;
}

export function sourceIn(tags: readonly string[]): string | undefined {
  return tagValue(tags, sourceKey);
}

/** On a copy until it is first returned to a caller: a copy that still has it after a crash was never used. */
export const unfinishedTag = 'moorage.dev/unfinished';

/**
 * Set at creation if the caller records the first use by a tag. The engine removes it together with the first such tag, so
 * a volume that still has it was never used.
 */
export const unusedTag = 'moorage.dev/unused';

/**
 * Set on a volume that was never used and is about to be removed, because the claim that it was created for is gone: it is
 * not used any more.
 */
export const retiredTag = 'moorage.dev/retired';

/** Set on an independent copy once all of its source has been copied. */
export const copiedTag = 'moorage.dev/copied';

/** Set before the first byte is destroyed: the volume must never be used again, whatever is still on it. */
export const erasingTag = 'moorage.dev/erasing';

/** The same for a volume that is to be emptied: it must not be used until it is clean. */
export const emptyingTag = 'moorage.dev/emptying';

/**
 * What the caller wants to happen to the data of the volume when it is removed, instead of what its class says: `none`,
 * `discard`, `zero`, `shred`, or `default` for what its class says.
 */
export function onRemovalIn(tags: readonly string[]): string | undefined {
  const policy = tagValue(tags, onRemovalKey);
  return policy === 'default' ? undefined : policy;
}

function isOnRemoval(tag: string): boolean {
  const policy = onRemovalIn([tag]);
  return tag === `${onRemovalKey}=default` || (policy !== undefined && parsePolicy(policy) !== undefined);
}

/** Set after mkfs: a volume with this tag is never formatted again. */
export function filesystemTag(filesystem: string): string {
  return `${filesystemKey}=${filesystem}`;
}

/** The filesystem that was created on the volume, whatever its device contains today. */
export function formattedAs({ tags }: Pick<Volume, 'tags'>): string | undefined {
  return tagValue(tags, filesystemKey);
}

/** Set before the raw device is first published: such a volume is never formatted. */
export const rawTag = 'moorage.dev/raw';

/** Set on an existing volume that others created: such a volume is never formatted. */
export const adoptedTag = 'moorage.dev/adopted';

/** Set once the volume has been encrypted: its device is readable only with a key. */
export const encryptedTag = `${encryptedPrefix}luks2`;

export function isEncrypted({ tags }: Pick<Volume, 'tags'>): boolean {
  return tags.includes(encryptedTag);
}

/** On the source of a move: the uid of the move. The volume is not staged or published again. */
export const movingKey = 'moorage.dev/moving';

/** On the target of a move, from its creation: the uid of the move. Until it is removed, the volume has no complete data. */
export const receivingKey = 'moorage.dev/receiving';

/** On the target of a move: how much of its source it has. */
export const positionKey = 'moorage.dev/position';
const moveKeys = [movingKey, receivingKey, positionKey];

/** On a snapshot that tracks the changes of a volume during a move: the volume. It is not listed as a volume. */
const checkpointKey = 'moorage.dev/checkpoint';

export function checkpointTag(volume: string): string {
  return `${checkpointKey}=${volume}`;
}

/** The volume that this is a checkpoint of. */
export function checkpointedIn(tags: readonly string[]): string | undefined {
  return tagValue(tags, checkpointKey);
}

/** On a thin volume while we read the metadata of its pool: the reservation of a metadata snapshot is ours. */
export const readsMetadataTag = 'moorage.dev/reads-metadata';

/** The tags without those of these keys. Only the tags of a move can be removed: all others are facts about the data. */
export function withoutMoveTags(tags: readonly string[], keys: readonly string[]): readonly string[] {
  refuseOwn(keys.find((key) => !moveKeys.includes(key)));
  return tags.filter((tag) => !hasKey(tag, keys));
}

/** Whether a caller may set it on a new volume. Most of our own tags decide what a pool may do to a volume. */
export function isForNewVolume(tag: string): boolean {
  if (!tag.startsWith(ownPrefix) || tag === createdTag || hasKey(tag, [receivingKey])) return true;
  return ownerKindOf(tag) !== undefined || isOnRemoval(tag);
}

/** Whether a caller may add it to a volume: also tags that record its first use, its adoption, its move or its end. */
export function isForAnyVolume(tag: string): boolean {
  const isOther = tag === adoptedTag || tag === retiredTag || hasKey(tag, moveKeys);
  return isForNewVolume(tag) || isOther || showsUse(tag);
}

/** Whether the tag means that data may have been written to the volume, or to the source of a copy. */
export function showsUse(tag: string): boolean {
  return tag === rawTag || tag.startsWith(`${filesystemKey}=`) || tag.startsWith(encryptedPrefix);
}

/** The tags of a new, empty volume. */
export function newVolumeTags({ tags }: Pick<NewVolume, 'tags'>): readonly string[] {
  const recordsUse = tags.some((tag) => ownerKindOf(tag) !== undefined);
  return [...new Set([...tags, createdTag, ...(recordsUse ? [unusedTag] : [])])];
}

/** The tags of a volume after some were added, which replace those that they contradict. */
export function withAddedTags(tags: readonly string[], added: readonly string[]): readonly string[] {
  const kept = tags.filter((tag) => added.includes(tag) || !added.some((other) => replaces(other, tag)));
  return [...new Set([...kept, ...added])];
}

/** A volume has one owner and one move; the earlier owner may be a claim in a cluster that was lost. */
function replaces(added: string, tag: string): boolean {
  if (tag === unusedTag) return precedesData(added);
  if (hasKey(tag, [onRemovalKey, ...moveKeys])) return keyOf(added) === keyOf(tag);
  const [kind, earlierKind] = [ownerKindOf(added), ownerKindOf(tag)];
  if (!kind || !earlierKind) return false;
  return kind !== earlierKind || keyOf(added) === keyOf(tag);
}

/** Whether the tag is set before data is written to the volume itself; a copy of it does not inherit all of these. */
function precedesData(tag: string): boolean {
  return showsUse(tag) || hasKey(tag, [positionKey]);
}

/** Undefined for a tag that names no owner. */
function ownerKindOf(tag: string): readonly string[] | undefined {
  return owners.find((keys) => hasKey(tag, keys));
}

function hasKey(tag: string, keys: readonly string[]): boolean {
  return tag.includes('=') && keys.includes(keyOf(tag));
}

function keyOf(tag: string): string {
  return tag.split('=', 1)[0] ?? '';
}

/**
 * Whether the tags prove that the volume was never used: Moorage created it empty, and would have recorded its first use. A
 * volume that moves may be waited for by another node.
 */
export function isProvenUnused({ tags, readOnly, origin }: Volume): boolean {
  const mayHaveData = (tag: string) =>
    showsUse(tag) || tag === adoptedTag || hasKey(tag, [sourceKey, movingKey, receivingKey]);
  const isNew = tags.includes(createdTag) && tags.includes(unusedTag);
  return isNew && !tags.some(mayHaveData) && !readOnly && origin === undefined;
}

/** The tags that a copy inherits: those that describe the contents of the device. */
export function contentTags(tags: readonly string[]): readonly string[] {
  return tags.filter((tag) => tag === createdTag || tag === adoptedTag || showsUse(tag));
}

/** Whether Moorage created or adopted the volume, or TopoLVM created it inline for a pod. Other volumes are none of our business. */
export function isMarked({ id, tags }: Pick<Volume, 'id' | 'tags'>): boolean {
  const isInlineOfTopolvm = tags.includes('ephemeral') && /^csi-[0-9a-f]{64}$/.test(id); // the kubelet chooses this name
  return isInlineOfTopolvm || tags.some((tag) => tag.startsWith(ownPrefix));
}

/** Whether an existing volume with the requested name is ours: by our tag, or by having all requested tags. */
export function isCreatedHere(tags: readonly string[], wantedTags: readonly string[]): boolean {
  const isWanted = wantedTags.length > 0 && wantedTags.every((tag) => tags.includes(tag));
  return isWanted || tags.includes(createdTag) || sourceIn(tags) !== undefined;
}
