import { MoorageError } from '../../base/errors.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { erasingTag } from '../tags.ts';

/** The progress of a volume's erasure, as its tags record it. */
export interface ErasureRecord {
  readonly policy: ErasePolicy;
  /** The volume is clean up to this offset. */
  readonly cleanBytes: bigint;
}

/** Somebody removed the volume or its mark, or created another volume with its name, which must not be erased. */
export class ErasureCancelled extends MoorageError {
  readonly code = 'Aborted';

  constructor(id: string) {
    super(
      `volume ${id} was removed, replaced or unmarked during its erasure, and not all of its data was destroyed; ` +
        'if it still exists, remove it again',
    );
  }
}

const policyPrefix = 'moorage.dev/erase=';
const progressPrefix = 'moorage.dev/erased=';

/**
 * The tags of a volume to set, all at once, before the first byte is destroyed. They include the policy, so that the one
 * in force at the removal applies even if the configuration changes meanwhile. A tag left by an erasure that was called
 * off would make this one skip what was written since, so those are replaced.
 */
export function markedTags(tags: readonly string[], policy: ErasePolicy): readonly string[] {
  const kept = tags.filter((tag) => tag !== erasingTag && !tag.startsWith(policyPrefix) && !isProgressTag(tag));
  return [...kept, erasingTag, `${policyPrefix}${policy.kind === 'shred' ? `shred:${policy.passes}` : policy.kind}`];
}

/** The tags of a marked volume that is clean up to this offset. */
export function progressedTags(tags: readonly string[], cleanBytes: bigint): readonly string[] {
  return [...tags.filter((tag) => !isProgressTag(tag)), `${progressPrefix}${cleanBytes}`];
}

function isProgressTag(tag: string): boolean {
  return tag.startsWith(progressPrefix);
}

/** Undefined for a volume that was not removed. An unreadable policy means the default of `shred`. */
export function erasureIn(tags: readonly string[]): ErasureRecord | undefined {
  if (!tags.includes(erasingTag)) return undefined;
  const after = (prefix: string) => tags.find((tag) => tag.startsWith(prefix))?.slice(prefix.length) ?? '';
  const progress = after(progressPrefix);
  return {
    policy: parsePolicy(after(policyPrefix)),
    cleanBytes: /^\d{1,19}$/.test(progress) ? BigInt(progress) : 0n,
  };
}

function parsePolicy(text: string): ErasePolicy {
  if (text === 'none' || text === 'discard' || text === 'zero') return { kind: text };
  const passes = Number(/^shred:(\d{1,3})$/.exec(text)?.[1] ?? 3);
  return { kind: 'shred', passes };
}
