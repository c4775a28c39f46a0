import { type PersistentVolume, persistentVolumeClaims, type Stored } from '../kube/resource.ts';

export interface ClaimKey {
  readonly namespace: string;
  readonly name: string;
}

/** No claim has it: the API server assigns random ones. */
const uidOfNoClaim = '00000000-0000-0000-0000-000000000000';

/**
 * Keeps a PersistentVolume Released: no claim can be bound to it, not even one of the same name. Without a claimRef, any
 * claim of any namespace could get the data.
 */
export function releasedFrom(claim: ClaimKey | undefined, volumeName: string) {
  const { namespace, name } = claim ?? placeholderClaim(volumeName);
  return { apiVersion: 'v1', kind: persistentVolumeClaims.kind, namespace, name, uid: uidOfNoClaim };
}

/** The claim that has the PersistentVolume, or had it last; undefined if that is not known. */
export function claimOf({ metadata, spec }: Stored<PersistentVolume>): ClaimKey | undefined {
  const { namespace, name, uid } = spec?.claimRef ?? {};
  if (!namespace || !name) return undefined;
  const placeholder = placeholderClaim(metadata.name);
  const isPlaceholder = uid === uidOfNoClaim && namespace === placeholder.namespace && name === placeholder.name;
  return isPlaceholder ? undefined : { namespace, name };
}

/** A claimRef must have a name. */
function placeholderClaim(volumeName: string): ClaimKey {
  return { namespace: 'default', name: volumeName };
}
