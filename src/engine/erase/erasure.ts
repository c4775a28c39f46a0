import { MoorageError } from '../../base/errors.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { erasingTag } from '../tags.ts';

/** How far the destruction of a volume's data has come, as its tags tell. */
export interface ErasureRecord {
  readonly policy: ErasePolicy;
  /** The volume is clean up to here. */
  readonly cleanBytes: bigint;
}

/** Somebody has taken the volume away or its mark off, or has made another of its name: that one is not ours to destroy. */
export class ErasureCalledOff extends MoorageError {
  readonly code = 'Aborted';

  constructor(id: string) {
    super(
      `volume ${id} is no longer there as it was marked for erasure, and not all of its data was destroyed; ` +
        'if it is still there, remove it again',
    );
  }
}

const policyPrefix = 'moorage.dev/erase=';
const progressPrefix = 'moorage.dev/erased=';

/**
 * Tags to set, all at once, before the first byte is destroyed. The policy is among them: what was promised when the
 * volume was removed is kept, even if the configuration has changed before it is done. They replace all that an earlier
 * erasure has left, see `isErasureTag`.
 */
export function erasureTags(policy: ErasePolicy): readonly string[] {
  return [erasingTag, `${policyPrefix}${policy.kind === 'shred' ? `shred:${policy.passes}` : policy.kind}`];
}

/** Replaces the one of before; see `isProgressTag`. */
export function progressTag(cleanBytes: bigint): string {
  return `${progressPrefix}${cleanBytes}`;
}

export function isProgressTag(tag: string): boolean {
  return tag.startsWith(progressPrefix);
}

/** Left by an erasure that somebody has called off, it would make the next one leave out what was written since. */
export function isErasureTag(tag: string): boolean {
  return tag === erasingTag || tag.startsWith(policyPrefix) || isProgressTag(tag);
}

/** Undefined for a volume that nobody has removed. A mark that cannot be understood asks for the default of `shred`. */
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
