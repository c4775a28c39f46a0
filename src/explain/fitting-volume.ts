import { parseQuantity } from '../base/quantity.ts';
import { matchesLabels } from '../kube/node-selector.ts';
import type { PersistentVolume, PersistentVolumeClaim } from '../kube/resource.ts';

type Claim = PersistentVolumeClaim;

/** Why a claim cannot have an existing PersistentVolume, apart from where it is; undefined if it can. As Kubernetes decides it. */
export function misfit({ metadata, spec, status }: PersistentVolume, claim: Claim): string | undefined {
  const wanted = claim.spec;
  if (metadata?.deletionTimestamp) return 'it is being deleted';
  const owner = spec?.claimRef;
  const isForClaim = owner?.name === claim.metadata?.name && owner?.namespace === claim.metadata?.namespace;
  if (owner && (!isForClaim || (owner.uid && owner.uid !== claim.metadata?.uid))) {
    return `it belongs to claim ${owner.namespace}/${owner.name}${isForClaim ? ', which was deleted' : ''}`;
  }
  if (!owner && status?.phase !== undefined && status.phase !== 'Available') return `its phase is ${status.phase}`;
  const [needed, has] = [wanted?.resources?.requests?.['storage'] ?? '0', spec?.capacity?.['storage'] ?? '0'];
  if (parseQuantity(has) < parseQuantity(needed)) return `it has ${has}, and the claim requests ${needed}`;
  const [wantedClass, ownClass] = [wanted?.storageClassName ?? '', spec?.storageClassName ?? ''];
  if (wantedClass !== ownClass) return `its class is ${quoted(ownClass)}, and the claim's is ${quoted(wantedClass)}`;
  const [wantedMode, ownMode] = [wanted?.volumeMode ?? 'Filesystem', spec?.volumeMode ?? 'Filesystem'];
  if (wantedMode !== ownMode) return `its volume mode is ${ownMode}, and the claim's is ${wantedMode}`;
  const missing = (wanted?.accessModes ?? []).find((mode) => !spec?.accessModes?.includes(mode));
  if (missing) return `it does not have the access mode ${missing}`;
  const isSelected = matchesLabels(wanted?.selector ?? {}, metadata?.labels ?? {});
  return isSelected ? undefined : "it does not match the claim's selector";
}

function quoted(text: string): string {
  return text === '' ? 'empty' : text;
}
