import { driverName } from '../api/names.ts';
import { mostSimilar } from '../base/similar.ts';
import type { PersistentVolume, Stored } from '../kube/resource.ts';
import { type Finding, listed } from './explanation.ts';
import { misfit } from './fitting-volume.ts';
import type { Claim, Known } from './known.ts';
import { provisioningReason } from './provisioning.ts';

const defaultClass = 'storageclass.kubernetes.io/is-default-class';
const noProvisioner = 'kubernetes.io/no-provisioner';

/**
 * Why a claim has no volume, apart from its pods: its class, the PersistentVolume that it names, and the creation of its
 * volume. Undefined if it is bound, or if nothing but a pod is missing.
 */
export function unboundReason(claim: Claim, known: Known): Finding | undefined {
  const { spec, status } = claim;
  if (status?.phase === 'Lost') return lost(claim, known);
  if (status?.phase === 'Bound') return undefined;
  if (spec?.volumeName) return namedVolume(claim, spec.volumeName, known);
  return ofClass(claim, known) ?? provisioningReason(claim, known) ?? withoutProvisioner(claim, known);
}

/** Whether the volume of a claim is created only when a pod needs it. */
export function waitsForPod(claim: Claim, known: Known): boolean {
  return known.classOf(claim)?.volumeBindingMode === 'WaitForFirstConsumer';
}

function lost({ metadata, spec }: Claim, known: Known): Finding {
  const pvName = spec?.volumeName ?? '';
  const pv = known.persistentVolume(pvName);
  const owner = pv?.spec?.claimRef;
  const cause = pv
    ? `PersistentVolume ${pvName} belongs to ${owner ? `claim ${owner.namespace}/${owner.name} with the uid ${owner.uid}` : 'no claim'}`
    : `its PersistentVolume ${pvName} was deleted while the claim used it`;
  return {
    code: 'ClaimLost',
    cause,
    advice: "restore the PersistentVolume with a claimRef that has this claim's uid",
    evidence: [
      `claim ${metadata.name}: phase Lost, uid ${metadata.uid}, volumeName ${pvName}`,
      pv ? `PersistentVolume ${pvName}: claimRef uid ${owner?.uid}` : `there is no PersistentVolume ${pvName}`,
    ],
    remedy: ['kubectl moorage orphans # shows whether the volume is still on a node'],
  };
}

/** The claim names a PersistentVolume and is not bound to it. */
function namedVolume(claim: Claim, pvName: string, known: Known): Finding | undefined {
  const { persistentVolumes } = known.objects;
  if (persistentVolumes === undefined) return undefined;
  const pv = known.persistentVolume(pvName);
  if (!pv) {
    return {
      code: 'VolumeMissing',
      cause: `it names PersistentVolume ${pvName}, which does not exist`,
      advice: 'create it, or create the claim again without volumeName',
      evidence: [
        `claim ${claim.metadata.name}: spec.volumeName is ${pvName}`,
        `there is no PersistentVolume ${pvName}`,
      ],
      remedy: [`kubectl moorage orphans # shows whether a volume ${pvName} is still on a node`],
    };
  }
  const reason = misfit(pv, claim);
  if (!reason) return undefined;
  return pv.spec?.claimRef ? ofOtherClaim(claim, pv, reason) : unfit(claim, pv, reason);
}

function unfit(claim: Claim, { metadata: { name } }: Stored<PersistentVolume>, reason: string): Finding {
  return {
    code: 'VolumeUnfit',
    cause: `it cannot have PersistentVolume ${name}: ${reason}`,
    advice: 'correct one of the two',
    evidence: [`claim ${claim.metadata.name}: spec.volumeName is ${name}`, `PersistentVolume ${name}: ${reason}`],
    remedy: [`kubectl get pv ${name} -o yaml`],
  };
}

function ofOtherClaim({ metadata }: Claim, pv: Stored<PersistentVolume>, reason: string): Finding {
  const { name } = pv.metadata;
  const isReleased = pv.status?.phase === 'Released';
  return {
    code: 'VolumeOfOtherClaim',
    cause: `it cannot have PersistentVolume ${name}: ${reason}`,
    advice: isReleased ? 'give it to this claim with kubectl moorage reattach' : 'name another volume',
    evidence: [
      `claim ${metadata.name}: spec.volumeName is ${name}, uid ${metadata.uid}`,
      `PersistentVolume ${name}: phase ${pv.status?.phase}, claimRef uid ${pv.spec?.claimRef?.uid}`,
    ],
    remedy: isReleased
      ? [`kubectl moorage reattach pv/${name} --to ${metadata.namespace}/${metadata.name}`]
      : [`kubectl get pv ${name} -o yaml`],
  };
}

/** The class is missing, or cannot work. */
function ofClass({ metadata, spec }: Claim, known: Known): Finding | undefined {
  const { storageClasses, csiDrivers } = known.objects;
  const name = spec?.storageClassName;
  if (name === '') {
    return {
      code: 'EmptyStorageClass',
      cause:
        'its storageClassName is empty, so it gets only a PersistentVolume that somebody creates by hand, and none fits',
      advice: 'create the claim again with a StorageClass',
      evidence: [`claim ${metadata.name}: spec.storageClassName is ""`],
      remedy: ['kubectl get storageclasses'],
    };
  }
  if (storageClasses === undefined) return undefined;
  if (name === undefined) return noDefault(metadata.name, known);
  const own = known.storageClass(name);
  if (!own) {
    const names = storageClasses.map((each) => each.metadata.name);
    const similar = mostSimilar(name, names);
    return {
      code: 'StorageClassMissing',
      cause: `there is no StorageClass ${name}${similar ? ` (did you mean ${similar}?)` : ''}`,
      advice: 'create it, or create the claim again with another one',
      evidence: [
        `claim ${metadata.name}: spec.storageClassName is ${name}`,
        `StorageClasses: ${listed(names, 10) || 'none'}`,
      ],
      remedy: ['kubectl get storageclasses'],
    };
  }
  const { provisioner } = own;
  const isBuiltIn = provisioner.startsWith('kubernetes.io/');
  if (csiDrivers === undefined || isBuiltIn || provisioner === driverName) return undefined;
  const drivers = csiDrivers.map((each) => each.metadata.name);
  // Provisioners that are no CSI drivers have other names, and would be known by an Event of theirs.
  if (drivers.includes(provisioner) || known.objects.events?.some(({ reason }) => reason === 'Provisioning'))
    return undefined;
  return {
    code: 'ProvisionerUnknown',
    cause: `StorageClass ${name} names the provisioner ${provisioner}, which is not installed`,
    advice: `install it, or use a StorageClass with ${drivers.join(' or ') || 'another one'}`,
    evidence: [`StorageClass ${name}: provisioner ${provisioner}`, `CSIDrivers: ${listed(drivers, 10) || 'none'}`],
    remedy: ['kubectl get csidrivers', 'kubectl get storageclasses'],
  };
}

function noDefault(claimName: string, { objects: { storageClasses = [] } }: Known): Finding | undefined {
  if (storageClasses.some(({ metadata }) => metadata.annotations?.[defaultClass] === 'true')) return undefined;
  const ours = storageClasses.find(({ provisioner }) => provisioner === driverName);
  const patch = `'{"metadata":{"annotations":{"${defaultClass}":"true"}}}'`;
  return {
    code: 'NoStorageClass',
    cause: 'it names no StorageClass, and the cluster has no default',
    advice: 'mark a StorageClass as the default: the claim then gets it',
    evidence: [
      `claim ${claimName}: spec.storageClassName is not set`,
      `StorageClasses: ${
        listed(
          storageClasses.map(({ metadata }) => metadata.name),
          10,
        ) || 'none'
      }, none with ${defaultClass}=true`,
    ],
    remedy: [`kubectl patch storageclass ${ours?.metadata.name ?? 'NAME'} -p ${patch}`],
  };
}

/** A class whose volumes are created by hand, in advance. */
function withoutProvisioner(claim: Claim, known: Known): Finding | undefined {
  const { persistentVolumes } = known.objects;
  const own = known.classOf(claim);
  if (own?.provisioner !== noProvisioner || persistentVolumes === undefined) return undefined;
  const offered = persistentVolumes.filter(({ spec }) => spec?.storageClassName === own.metadata.name);
  const fitting = offered.filter((pv) => misfit(pv, claim) === undefined);
  if (fitting.length > 0) return undefined;
  return {
    code: 'VolumeMissing',
    cause: `StorageClass ${own.metadata.name} creates no volumes, and ${offered.length === 0 ? 'has no PersistentVolume' : 'none of its PersistentVolumes fits'}`,
    advice: 'create one',
    evidence: offered.slice(0, 10).map((pv) => `PersistentVolume ${pv.metadata.name}: ${misfit(pv, claim)}`),
    remedy: [`kubectl get pv # those of class ${own.metadata.name}`],
  };
}
