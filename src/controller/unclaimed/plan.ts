import { deleting, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  adoptAnnotation,
  claimKey,
  contentSourceAnnotation,
  neverUsedAnnotation,
  nodeRemovedAnnotation,
  pendingDeletionAnnotation,
  unclaimedAnnotation,
} from '../../api/names.ts';

/**
 * csi-provisioner 5.3 remembers a claim that is deleted while its volume is created. It retries, every five minutes at the
 * latest, and creates the PersistentVolume in the end; that is released at once, and the volume is deleted with it. Only a
 * restart makes it forget the claim. So a volume that has had neither object for this long will never get one.
 */
export const graceMs = 60 * 60_000;

/** What is known about the other objects of a volume. */
export interface Surroundings {
  /** One has its name or its volume handle. */
  readonly hasPersistentVolume: boolean;
  /** The claim that it was created for exists. */
  readonly hasClaim: boolean;
  /** Since when it has had neither. */
  readonly sinceMs: number;
  readonly nowMs: number;
}

export type Step =
  | { readonly kind: 'nothing' | 'ask' | 'withdraw' | 'delete' }
  | { readonly kind: 'wait'; readonly ms: number };

/** The next step for a LogicalVolume. It is deleted only if its node has proven that its volume was never used. */
export function nextStep(volume: StoredLogicalVolume, surroundings: Surroundings): Step {
  const { hasPersistentVolume, hasClaim, sinceMs, nowMs } = surroundings;
  if (!mayBeUnclaimed(volume)) return { kind: 'nothing' };
  if (hasPersistentVolume || hasClaim) {
    if (isAsked(volume)) return { kind: 'withdraw' };
    return hasPersistentVolume ? { kind: 'nothing' } : { kind: 'wait', ms: graceMs };
  }
  const waitMs = sinceMs + graceMs - nowMs;
  if (waitMs > 0) return { kind: 'wait', ms: waitMs };
  if (!isAsked(volume)) return { kind: 'ask' };
  return { kind: volume.metadata.annotations?.[neverUsedAnnotation] === 'true' ? 'delete' : 'nothing' };
}

/** Whether the volume exists, and was created empty and for a claim. Any other may contain data that somebody wants back. */
export function mayBeUnclaimed(volume: StoredLogicalVolume): boolean {
  const { metadata, spec, status } = volume;
  const isThere = status?.volumeID === metadata.uid && !status.missingFrom && !deleting(volume);
  const isOther = notForUs.some((name) => name in (metadata.annotations ?? {}));
  return isThere && !isOther && !spec.source && claimOf(volume) !== undefined;
}

/** Of a volume that has its data from elsewhere, or whose node is gone. */
const notForUs = [adoptAnnotation, contentSourceAnnotation, nodeRemovedAnnotation, pendingDeletionAnnotation];

export function isAsked({ metadata }: StoredLogicalVolume): boolean {
  return unclaimedAnnotation in (metadata.annotations ?? {});
}

export interface ClaimOfVolume {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The claim that csi-provisioner requested the volume for: its uid is in the name of the volume. */
export function claimOf({ metadata }: StoredLogicalVolume): ClaimOfVolume | undefined {
  const [, uid] = /^pvc-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(metadata.name) ?? [];
  const [namespace, name] = metadata.annotations?.[claimKey]?.split('/') ?? [];
  return uid && namespace && name ? { namespace, name, uid } : undefined;
}
