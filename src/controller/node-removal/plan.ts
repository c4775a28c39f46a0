import { type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { driverName, selectedNodeAnnotation, topologyKey } from '../../api/names.ts';
import type { PersistentVolume, PersistentVolumeClaim, Stored } from '../../kube/resource.ts';

/** The fields that we keep of a PersistentVolume of our driver. */
export interface OurVolume {
  readonly name: string;
  /** CSI's volume ID. */
  readonly handle: string;
  readonly isRetained: boolean;
  /** The nodes that its node affinity names; undefined if it has none. */
  readonly nodeNames: readonly string[] | undefined;
}

/** The fields that we keep of a claim. */
export interface Claim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly storageClass: string;
  /** The PersistentVolume that it is bound to, or empty. */
  readonly volumeName: string;
  /** The node that the scheduler has chosen for it, or empty. */
  readonly selectedNode: string;
}

/** The objects that may belong to a node. */
export interface NodeObjects {
  /** On that node. */
  readonly logicalVolumes: readonly StoredLogicalVolume[];
  /** Of our driver, on any node. */
  readonly persistentVolumes: readonly OurVolume[];
  readonly claims: readonly Claim[];
  /** The names of the StorageClasses of our driver. */
  readonly ourStorageClasses: ReadonlySet<string>;
  /** The IDs of snapshots that must outlive their objects. */
  readonly retainedSnapshots: ReadonlySet<string>;
}

export interface RemovalPlan {
  /** Claims whose volumes were on the node, or were about to be created there. */
  readonly claims: readonly Claim[];
  /** Those that are not retained. */
  readonly logicalVolumes: readonly StoredLogicalVolume[];
}

/** What to delete with a node. A retained volume or snapshot keeps its LogicalVolume, which records where the data is. */
export function planRemoval(nodeName: string, objects: NodeObjects): RemovalPlan {
  const { logicalVolumes, persistentVolumes, claims, ourStorageClasses, retainedSnapshots } = objects;
  const ids = new Set(logicalVolumes.map(volumeIdOf));
  // The node affinity of a PersistentVolume is trusted; the volume ID in a LogicalVolume is only its node's claim.
  const isHere = ({ handle, nodeNames }: OurVolume) => nodeNames?.includes(nodeName) ?? ids.has(handle);
  const namesHere = new Set(persistentVolumes.filter(isHere).map(({ name }) => name));
  const retained = new Set(persistentVolumes.filter(({ isRetained }) => isRetained).map(({ handle }) => handle));
  // The volume of a bound claim decides where it is: the scheduler's choice may be outdated.
  const belongs = ({ volumeName, selectedNode, storageClass }: Claim) =>
    volumeName === '' ? selectedNode === nodeName && ourStorageClasses.has(storageClass) : namesHere.has(volumeName);
  const isKept = (id: string) => retained.has(id) || retainedSnapshots.has(id);
  return {
    claims: claims.filter(belongs),
    logicalVolumes: logicalVolumes.filter((volume) => !isKept(volumeIdOf(volume))),
  };
}

/** Undefined for a volume of another driver. */
export function ourVolume({ metadata, spec }: Stored<PersistentVolume>): OurVolume | undefined {
  if (spec?.csi?.driver !== driverName) return undefined;
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms;
  const expressions = terms?.flatMap(({ matchExpressions = [] }) => matchExpressions);
  return {
    name: metadata.name,
    handle: spec.csi.volumeHandle,
    isRetained: spec.persistentVolumeReclaimPolicy === 'Retain',
    nodeNames: expressions
      ?.filter(({ key, operator }) => key === topologyKey && operator === 'In')
      .flatMap(({ values = [] }) => values),
  };
}

export function claimOf({ metadata, spec }: Stored<PersistentVolumeClaim>): Claim {
  const { namespace = '', name, uid, annotations } = metadata;
  return {
    namespace,
    name,
    uid,
    storageClass: spec?.storageClassName ?? '',
    volumeName: spec?.volumeName ?? '',
    selectedNode: annotations?.[selectedNodeAnnotation] ?? '',
  };
}
