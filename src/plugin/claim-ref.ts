import { type PersistentVolume, persistentVolumeClaims, type Stored } from '../kube/resource.ts';

export interface ClaimKey {
  readonly namespace: string;
  readonly name: string;
}

/** The API server gives out random ones. */
const uidOfNoClaim = '00000000-0000-0000-0000-000000000000';

/**
 * Keeps a PersistentVolume Released: no claim can be bound to it, not even one of the same name. Without a claimRef, any
 * claim of any namespace could get the data.
 */
export function releasedFrom(claim: ClaimKey | undefined, volumeName: string) {
  const { namespace, name } = claim ?? ownerOfNobodys(volumeName);
  return { apiVersion: 'v1', kind: persistentVolumeClaims.kind, namespace, name, uid: uidOfNoClaim };
}

/** The claim that has the PersistentVolume, or had it last; undefined if that is not known. */
export function claimOf({ metadata, spec }: Stored<PersistentVolume>): ClaimKey | undefined {
  const { namespace, name, uid } = spec?.claimRef ?? {};
  if (!namespace || !name) return undefined;
  const nobody = ownerOfNobodys(metadata.name);
  const isNobodys = uid === uidOfNoClaim && namespace === nobody.namespace && name === nobody.name;
  return isNobodys ? undefined : { namespace, name };
}

/** Kubernetes wants to know some name. */
function ownerOfNobodys(volumeName: string): ClaimKey {
  return { namespace: 'default', name: volumeName };
}
