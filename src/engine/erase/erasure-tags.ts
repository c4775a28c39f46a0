import type { ErasePolicy } from '../config/device-classes.ts';
import { contentTags, emptyingTag, erasingTag, newVolumeTags, onRemovalIn, unusedTag } from '../names-and-tags.ts';
import { parsePolicy, policyNamed, policyText } from './erase-policy.ts';

/** The progress of a volume's erasure, as its tags record it. */
export interface ErasureRecord {
  readonly policy: ErasePolicy;
  /** The volume is clean up to this offset. */
  readonly cleanBytes: bigint;
  /** The volume is to be emptied, not removed. */
  readonly isKept: boolean;
}

const policyPrefix = 'moorage.dev/erase=';
const progressPrefix = 'moorage.dev/erased=';

/**
 * The tags of a volume to set, all at once, before the first byte is destroyed. They include the policy, so that the one
 * in force at the removal applies even if the configuration changes meanwhile. A tag left by an erasure that was called
 * off would make this one skip what was written since, so those are replaced.
 */
export function markedTags(
  tags: readonly string[],
  policy: ErasePolicy,
  mark: typeof erasingTag | typeof emptyingTag = erasingTag,
): readonly string[] {
  return [...unmarkedTags(tags), mark, `${policyPrefix}${policyText(policy)}`];
}

function unmarkedTags(tags: readonly string[]): readonly string[] {
  const isMark = (tag: string) => tag === erasingTag || tag === emptyingTag || tag.startsWith(policyPrefix);
  return tags.filter((tag) => !isMark(tag) && !isProgressTag(tag));
}

/** The tags of a volume once it is empty, all at once: those of a new volume of the same owner. */
export function emptiedTags(tags: readonly string[]): readonly string[] {
  const ofContents = new Set([...contentTags(tags), unusedTag]);
  return newVolumeTags({ tags: unmarkedTags(tags).filter((tag) => !ofContents.has(tag)) });
}

/** The tags of a marked volume that is clean up to this offset. */
export function progressedTags(tags: readonly string[], cleanBytes: bigint): readonly string[] {
  return [...tags.filter((tag) => !isProgressTag(tag)), `${progressPrefix}${cleanBytes}`];
}

function isProgressTag(tag: string): boolean {
  return tag.startsWith(progressPrefix);
}

/** Undefined for a volume that is not to be erased. An unreadable policy means the default of `shred`. */
export function erasureIn(tags: readonly string[]): ErasureRecord | undefined {
  const isRemoved = tags.includes(erasingTag);
  if (!isRemoved && !tags.includes(emptyingTag)) return undefined;
  const after = (prefix: string) => tags.find((tag) => tag.startsWith(prefix))?.slice(prefix.length) ?? '';
  const progress = after(progressPrefix);
  return {
    policy: parsePolicy(after(policyPrefix)) ?? policyNamed('shred'),
    cleanBytes: /^\d{1,19}$/.test(progress) ? BigInt(progress) : 0n,
    isKept: !isRemoved,
  };
}

/** What happens to the data of a volume with these tags when it is removed: its own policy comes before that of its class. */
export function policyOnRemoval(tags: readonly string[], classPolicy: ErasePolicy): ErasePolicy {
  const own = onRemovalIn(tags);
  if (own === undefined) return classPolicy;
  return parsePolicy(own) ?? policyNamed('shred'); // an unreadable one, set by hand, must not mean none
}
