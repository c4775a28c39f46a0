import { onScaleDown } from '../../api/names.ts';
import type { EventContent } from '../../kube/events.ts';
import {
  claimNamesOf,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type Stored,
} from '../../kube/resource.ts';
import { type ClaimingSet, covers, ordinalOf } from '../../kube/stateful-set.ts';
import { ourVolume } from '../node-removal/plan.ts';

/** Everything that decides about a claim whose pod may have been scaled away, read from the API server just before. */
export interface Observed {
  readonly claim: Stored<PersistentVolumeClaim>;
  readonly volume: Stored<PersistentVolume> | undefined;
  /** All of the namespace. */
  readonly pods: readonly Stored<Pod>[];
  readonly sets: readonly ClaimingSet[];
}

export type Step = { readonly kind: 'nothing' } | { readonly kind: 'release'; readonly event: EventContent };

/**
 * A claim is released only if a StatefulSet exists that it belongs to, and none of those has a pod for it any more. A set
 * that does not exist, or is being deleted, decides nothing.
 */
export function nextStep({ claim, volume, pods, sets }: Observed): Step {
  const nothing: Step = { kind: 'nothing' };
  const { name, namespace, deletionTimestamp } = claim.metadata;
  const ours = volume && ourVolume(volume);
  if (!ours || deletionTimestamp !== undefined || !isPairOf(claim, volume)) return nothing;
  const word = policyOf(claim, volume);
  const owners = sets.flatMap((set) => {
    const ordinal = set.namespace === namespace ? ordinalOf(set, name) : undefined;
    return ordinal === undefined ? [] : [{ set, ordinal }];
  });
  const [owner] = owners;
  const isScaledAway = owners.every(({ set, ordinal }) => !set.isDeleting && !covers(set, ordinal));
  if (word !== 'delete' || !owner || !isScaledAway) return nothing;
  const isOwn = (pod: string) => owners.some(({ set, ordinal }) => pod === `${set.name}-${ordinal}`);
  if (pods.some((pod) => isOwn(pod.metadata.name) || claimNamesOf(pod).includes(name))) return nothing;
  const fate = ours.isRetained ? `PersistentVolume ${ours.name} is retained` : 'its data is removed';
  const message =
    `deleting this claim, because StatefulSet ${owner.set.name} no longer has pod ${owner.set.name}-${owner.ordinal}, ` +
    `and ${onScaleDown.annotation} is delete; ${fate}`;
  return { kind: 'release', event: { type: 'Normal', reason: 'ClaimReleased', action: 'Releasing', message } };
}

/** Both name each other: neither belongs to an earlier object of the same name. */
function isPairOf({ metadata, spec }: Stored<PersistentVolumeClaim>, volume: Stored<PersistentVolume>): boolean {
  return spec?.volumeName === volume.metadata.name && volume.spec?.claimRef?.uid === metadata.uid;
}

/** Any word, or undefined. */
function policyOf({ metadata }: Stored<PersistentVolumeClaim>, volume: Stored<PersistentVolume>): string | undefined {
  return metadata.annotations?.[onScaleDown.annotation] ?? policyOfVolume(volume);
}

/** What its StorageClass said when it was created, or what a static volume says itself. */
function policyOfVolume({ metadata, spec }: Stored<PersistentVolume>): string | undefined {
  return (spec?.csi ? spec.csi.volumeAttributes : metadata.annotations)?.[onScaleDown.annotation];
}

/** A claim that may have to be released. */
export interface ClaimName {
  readonly namespace: string;
  readonly name: string;
}

/** By its annotation. Undefined for most claims, to save memory. */
export function scalableClaim({ metadata }: Stored<PersistentVolumeClaim>): ClaimName | undefined {
  const { namespace = '', name, annotations } = metadata;
  return annotations?.[onScaleDown.annotation] === undefined ? undefined : { namespace, name };
}

/** The claim of a PersistentVolume whose StorageClass says `delete`. */
export function scalableClaimOf(volume: Stored<PersistentVolume>): ClaimName | undefined {
  const { namespace, name } = volume.spec?.claimRef ?? {};
  return policyOfVolume(volume) === 'delete' && namespace && name ? { namespace, name } : undefined;
}
