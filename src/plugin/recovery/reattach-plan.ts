import { localPvOptions } from '../../api/local-pv.ts';
import { bytesOf, type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { luks2, parameters, topologyKey } from '../../api/names.ts';
import { MoorageError } from '../../base/errors.ts';
import {
  apiVersionOf,
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import { type ClaimKey, claimOf } from '../claim-ref.ts';
import { isOfMoorage, nodeOf } from '../facts.ts';
import { staticVolumeFacts } from '../static-volumes.ts';
import { adoptingLogicalVolume, type Write } from './writes.ts';

/** What the cluster has of a volume and its claims. */
export interface ReattachState {
  readonly volume: Stored<PersistentVolume>;
  /** The claim to bind it to, if it exists. */
  readonly claim: Stored<PersistentVolumeClaim> | undefined;
  /** The claim that `claimRef` names, if it exists; it may be the same. */
  readonly owner: Stored<PersistentVolumeClaim> | undefined;
  /** The object of the volume on its node; undefined if it was lost, and for a static volume. */
  readonly logicalVolume: Stored<LogicalVolume> | undefined;
  /** Of its StorageClass; undefined for the default class of its node. */
  readonly deviceClass?: string | undefined;
}

/**
 * How a volume that was released or retained comes to exactly one claim. `claimRef` names that claim before the claim is
 * created or changed, so the volume is never open to others; without a uid, so that a new claim of that name is accepted.
 */
export function planReattach(
  target: ClaimKey,
  { volume, claim, owner, logicalVolume: object, deviceClass }: ReattachState,
): readonly Write[] {
  const { name } = volume.metadata;
  refuseForeign(volume);
  refuseDoomed(volume, object);
  const lacksObject = !object && !volume.spec?.local;
  if (lacksObject && claim && isBoundTo(claim, volume)) return [recreatedLogicalVolume(volume, target, deviceClass)];
  refuseOwned(name, owner);
  refuseUnfit(volume, claim);
  return [
    ...(lacksObject ? [recreatedLogicalVolume(volume, target, deviceClass)] : []),
    ...reserve(volume, target),
    claim ? bind(claim, name) : create(target, volume),
  ].filter((write) => write !== undefined);
}

/** The claim that a volume belonged to, which is the default target. */
export function lastOwner(volume: Stored<PersistentVolume>): ClaimKey {
  const claim = claimOf(volume);
  if (claim) return claim;
  throw new CannotReattach(volume.metadata.name, 'it belonged to no claim; name one with --to <namespace>/<claim>');
}

function refuseForeign(volume: Stored<PersistentVolume>): void {
  if (!isOfMoorage(volume)) throw new CannotReattach(volume.metadata.name, 'it is not a volume of Moorage');
}

/** A claim must not get a volume whose data goes away later, when its node or csi-provisioner continues. */
function refuseDoomed(volume: Stored<PersistentVolume>, object: Stored<LogicalVolume> | undefined): void {
  const { metadata, spec, status } = volume;
  const { name } = metadata;
  if (metadata.deletionTimestamp) throw new CannotReattach(name, 'it is being deleted');
  if (object?.metadata.deletionTimestamp) {
    throw new CannotReattach(name, `LogicalVolume ${object.metadata.name} was deleted, so its node removes the volume`);
  }
  if (status?.phase === 'Released' && staticVolumeFacts(volume)?.isEmptied) {
    const keep = `kubectl annotate pv ${name} ${localPvOptions.autoRelease}=false --overwrite`;
    throw new CannotReattach(
      name,
      `its node empties it for the next claim; to keep what is left of its data, first run: ${keep}`,
    );
  }
  if (status?.phase === 'Released' && spec?.persistentVolumeReclaimPolicy === 'Delete') {
    const policy = `'{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`;
    throw new CannotReattach(
      name,
      `its reclaim policy is Delete, so csi-provisioner deletes it; to keep it, first run: kubectl patch pv ${name} -p ${policy}`,
    );
  }
}

/** Both name each other: if an object was lost, it was only the LogicalVolume. */
function isBoundTo({ metadata, spec }: Stored<PersistentVolumeClaim>, volume: Stored<PersistentVolume>): boolean {
  const isNamed = metadata.uid === volume.spec?.claimRef?.uid && spec?.volumeName === volume.metadata.name;
  return isNamed && !metadata.deletionTimestamp;
}

/** A volume that is in use stays with its claim. */
function refuseOwned(volumeName: string, owner: Stored<PersistentVolumeClaim> | undefined): void {
  if (owner?.spec?.volumeName !== volumeName) return;
  const { namespace, name, deletionTimestamp } = owner.metadata;
  const state = deletionTimestamp ? 'which is being deleted; wait until it is gone' : 'which still exists';
  throw new CannotReattach(volumeName, `it is bound to claim ${namespace}/${name}, ${state}`);
}

function refuseUnfit(volume: Stored<PersistentVolume>, claim: Stored<PersistentVolumeClaim> | undefined): void {
  if (!claim) return;
  const { namespace, name, deletionTimestamp } = claim.metadata;
  const refuse = (reason: string) => {
    throw new CannotReattach(volume.metadata.name, `claim ${namespace}/${name} ${reason}`);
  };
  if (deletionTimestamp) refuse('is being deleted; wait until it is gone');
  const bound = claim.spec?.volumeName;
  if (bound && bound !== volume.metadata.name) {
    refuse(`already has volume ${bound}; choose another claim with --to`);
  }
  const { storageClassName = '', volumeMode = 'Filesystem', accessModes = [] } = volume.spec ?? {};
  if ((claim.spec?.storageClassName ?? '') !== storageClassName) {
    refuse(`has storage class ${claim.spec?.storageClassName ?? '""'}, the volume has ${storageClassName || '""'}`);
  }
  if ((claim.spec?.volumeMode ?? 'Filesystem') !== volumeMode) refuse(`must have volumeMode ${volumeMode}`);
  const [requested, size] = [claim.spec?.resources?.requests?.['storage'], volume.spec?.capacity?.['storage']];
  if (requested && size && bytesOf(requested) > bytesOf(size)) {
    refuse(`requests ${requested}, the volume has ${size}; request at most that, and grow the claim later`);
  }
  const missing = claim.spec?.accessModes?.find((mode) => !accessModes.includes(mode));
  if (missing) refuse(`requests access mode ${missing}, the volume has ${accessModes.join(', ')}`);
}

function recreatedLogicalVolume(
  volume: Stored<PersistentVolume>,
  claim: ClaimKey,
  deviceClass: string | undefined,
): Write {
  const { metadata, spec } = volume;
  const nodeName = nodeOf(volume);
  if (!nodeName) throw new CannotReattach(metadata.name, `it has no node affinity with ${topologyKey}`);
  const size = spec?.capacity?.['storage'] ?? '';
  const id = spec?.csi?.volumeHandle ?? '';
  const isEncrypted = spec?.csi?.volumeAttributes?.[parameters.encryption] === luks2;
  const object = adoptingLogicalVolume(metadata.name, { id, nodeName, deviceClass, size, claim, isEncrypted });
  return { verb: 'create', resource: logicalVolumes, object };
}

function reserve(volume: Stored<PersistentVolume>, { namespace, name }: ClaimKey): readonly Write[] {
  const { metadata, spec } = volume;
  const before = spec?.claimRef;
  if (before?.namespace === namespace && before.name === name && !before.uid) return [];
  const claimRef = { apiVersion: 'v1', kind: persistentVolumeClaims.kind, namespace, name };
  // A merge patch keeps fields that it does not name.
  const body = {
    metadata: { resourceVersion: metadata.resourceVersion },
    spec: { claimRef: { ...claimRef, uid: null, resourceVersion: null, fieldPath: null } },
  };
  return [{ verb: 'patch', resource: persistentVolumes, object: { ...volume, spec: { ...spec, claimRef } }, body }];
}

function bind(claim: Stored<PersistentVolumeClaim>, volumeName: string): Write | undefined {
  if (claim.spec?.volumeName === volumeName) return undefined;
  const { resourceVersion } = claim.metadata;
  return {
    verb: 'patch',
    resource: persistentVolumeClaims,
    object: { ...claim, spec: { ...claim.spec, volumeName } },
    body: { metadata: { resourceVersion }, spec: { volumeName } },
  };
}

function create({ namespace, name }: ClaimKey, { metadata, spec }: Stored<PersistentVolume>): Write {
  const { storageClassName = '', accessModes, volumeMode, capacity } = spec ?? {};
  return {
    verb: 'create',
    resource: persistentVolumeClaims,
    object: {
      apiVersion: apiVersionOf(persistentVolumeClaims),
      kind: persistentVolumeClaims.kind,
      metadata: { name, namespace },
      spec: {
        accessModes,
        storageClassName,
        ...(volumeMode && { volumeMode }),
        resources: { requests: { storage: capacity?.['storage'] } },
        volumeName: metadata.name,
      },
    },
  };
}

export class CannotReattach extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(volume: string, reason: string) {
    super(`cannot reattach PersistentVolume ${volume}: ${reason}`);
  }
}
