import { localPvAnnotations, localPvFinalizer, localPvOptions } from '../../api/local-pv.ts';
import { isSnapshot, recordedSourceOf, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import {
  asOnNodeRemoval,
  driverName,
  onNodeRemoval,
  parameters,
  selectedNodeAnnotation,
  topologyKey,
} from '../../api/names.ts';
import { affinityValues, type PersistentVolume, type PersistentVolumeClaim, type Stored } from '../../kube/resource.ts';

/** The fields that we keep of a PersistentVolume of our driver, or of a static volume. */
export interface OurVolume {
  readonly name: string;
  readonly uid: string;
  /** CSI's volume ID; undefined for a static volume. */
  readonly handle: string | undefined;
  /** Whether its data outlives its claim. */
  readonly isRetained: boolean;
  /** The nodes that its node affinity names; undefined if it has none. A static volume has the one that was found. */
  readonly nodeNames: readonly string[] | undefined;
  /** What its StorageClass said about the removal of its node when it was created, or what a static volume says itself. */
  readonly policy: string | undefined;
}

/** The fields that we keep of a claim. */
export interface Claim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly isDeleting: boolean;
  readonly storageClass: string;
  /** The PersistentVolume that it is bound to, or empty. */
  readonly volumeName: string;
  /** The node that the scheduler has chosen for it, or empty. */
  readonly selectedNode: string;
  /** What its owner says about the removal of its node: any word. */
  readonly policy: string | undefined;
}

/** The objects that may belong to a node. */
export interface NodeObjects {
  /** On that node. */
  readonly logicalVolumes: readonly StoredLogicalVolume[];
  /** Of our driver, and static volumes, on any node. */
  readonly persistentVolumes: readonly OurVolume[];
  readonly claims: readonly Claim[];
  /** The StorageClasses of our driver by name, with what they say about the removal of a node. */
  readonly ourStorageClasses: ReadonlyMap<string, string | undefined>;
  /** The IDs of snapshots that must outlive their objects. */
  readonly retainedSnapshots: ReadonlySet<string>;
}

/** A claim to delete. With `keep`, its volume is retained first. */
export interface ReleasedClaim {
  readonly claim: Claim;
  readonly policy: 'drop' | 'keep';
  /** Undefined if none was created yet. */
  readonly volume: OurVolume | undefined;
}

export interface WaitingClaim {
  readonly claim: Claim;
  /** A word that is no policy. */
  readonly invalid: string | undefined;
}

/** Claims are those whose volumes are on the node, or were about to be created there. */
export interface RemovalPlan {
  readonly released: readonly ReleasedClaim[];
  /** They stay until a person decides. */
  readonly waiting: readonly WaitingClaim[];
  /** Their objects are deleted; the disks are not touched. */
  readonly dropped: readonly StoredLogicalVolume[];
  /** Their objects stay, as the record of where the data is. */
  readonly kept: readonly StoredLogicalVolume[];
  /** Their PersistentVolumes stay: only a person deletes those. */
  readonly staticVolumes: readonly OurVolume[];
}

/** What happens to the objects of a node that is removed. */
export function planRemoval(nodeName: string, objects: NodeObjects): RemovalPlan {
  const { logicalVolumes, persistentVolumes, claims, ourStorageClasses, retainedSnapshots } = objects;
  const ids = new Set(logicalVolumes.map(volumeIdOf));
  // The node affinity of a PersistentVolume is trusted; the volume ID in a LogicalVolume is only its node's claim.
  const isHere = ({ handle, nodeNames }: OurVolume) => nodeNames?.includes(nodeName) ?? ids.has(handle ?? '');
  const here = new Map(persistentVolumes.filter(isHere).map((volume) => [volume.name, volume]));
  // The volume of a bound claim decides where it is: the scheduler's choice may be outdated.
  const belongs = ({ volumeName, selectedNode, storageClass }: Claim) =>
    volumeName === '' ? selectedNode === nodeName && ourStorageClasses.has(storageClass) : here.has(volumeName);

  const released: ReleasedClaim[] = [];
  const waiting: WaitingClaim[] = [];
  const keptIds = new Set(persistentVolumes.flatMap(({ isRetained, handle = [] }) => (isRetained ? handle : [])));
  for (const claim of claims.filter(belongs)) {
    const volume = here.get(claim.volumeName);
    const word = claim.policy ?? (volume ? volume.policy : ourStorageClasses.get(claim.storageClass)) ?? 'drop';
    const policy = asOnNodeRemoval(word);
    if (volume?.handle !== undefined && policy !== 'drop') keptIds.add(volume.handle);
    if (policy === 'drop' || policy === 'keep') {
      released.push({ claim, policy, volume });
    } else {
      waiting.push({ claim, invalid: policy === undefined ? word : undefined });
    }
  }
  const isKept = (volume: StoredLogicalVolume) => {
    const id = volumeIdOf(volume);
    return keptIds.has(id) || retainedSnapshots.has(id) || keptIds.has(snapshotSource(volume) ?? '');
  };
  return {
    released,
    waiting,
    dropped: logicalVolumes.filter((volume) => !isKept(volume)),
    kept: logicalVolumes.filter(isKept),
    staticVolumes: [...here.values()].filter(({ handle }) => handle === undefined),
  };
}

/** What a person decided about a claim that waits; undefined if nothing yet. */
export function decisionIn({ policy }: Pick<Claim, 'policy'>): ReleasedClaim['policy'] | undefined {
  const decided = asOnNodeRemoval(policy ?? '');
  return decided === 'wait' ? undefined : decided;
}

function snapshotSource(volume: StoredLogicalVolume): string | undefined {
  return isSnapshot(volume) ? recordedSourceOf(volume)?.id : undefined;
}

/** Undefined for a volume that is not Moorage's. */
export function ourVolume({ metadata, spec }: Stored<PersistentVolume>): OurVolume | undefined {
  if (metadata.finalizers?.includes(localPvFinalizer)) return staticVolume(metadata);
  if (spec?.csi?.driver !== driverName) return undefined;
  return {
    name: metadata.name,
    uid: metadata.uid,
    handle: spec.csi.volumeHandle,
    isRetained: spec.persistentVolumeReclaimPolicy === 'Retain',
    nodeNames: affinityValues({ spec }, topologyKey),
    policy: spec.csi.volumeAttributes?.[parameters.onNodeRemoval],
  };
}

function staticVolume({ name, uid, annotations = {} }: Stored<PersistentVolume>['metadata']): OurVolume {
  const node = annotations[localPvAnnotations.node];
  return {
    name,
    uid,
    handle: undefined,
    // Otherwise a machine that comes back may empty it.
    isRetained: annotations[localPvOptions.autoRelease] === 'false',
    nodeNames: node === undefined ? [] : [node],
    policy: annotations[onNodeRemoval.annotation],
  };
}

export function claimOf({ metadata, spec }: Stored<PersistentVolumeClaim>): Claim {
  const { namespace = '', name, uid, resourceVersion, annotations, deletionTimestamp } = metadata;
  return {
    namespace,
    name,
    uid,
    resourceVersion,
    isDeleting: deletionTimestamp !== undefined,
    storageClass: spec?.storageClassName ?? '',
    volumeName: spec?.volumeName ?? '',
    selectedNode: annotations?.[selectedNodeAnnotation] ?? '',
    policy: annotations?.[onNodeRemoval.annotation],
  };
}
