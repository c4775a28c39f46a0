import { hasLeft, leaveState } from '../../api/leave.ts';
import { localPvAnnotations, localPvFinalizer } from '../../api/local-pv.ts';
import {
  drainedFromAnnotation,
  driverName,
  droppingAnnotation,
  leave,
  onDrain,
  tombstone,
  topologyKey,
} from '../../api/names.ts';
import { type TombstoneWord, tombstoneOf } from '../../api/tombstone.ts';
import {
  affinityValues,
  claimNamesOf,
  type Node,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type Stored,
} from '../../kube/resource.ts';

/**
 * Taints of programs that empty a node before they remove it: Cluster Autoscaler, and Karpenter, now and before 1.0. With
 * DeletionCandidateOfClusterAutoscaler nothing is decided yet, and nothing is evicted because of it.
 */
const drainTaints: ReadonlySet<string> = new Set([
  'ToBeDeletedByClusterAutoscaler',
  'karpenter.sh/disrupted',
  'karpenter.sh/disruption',
]);

/** Whether pods are evicted from the node so that it can be repaired or removed. */
export function isDraining({ spec }: Node): boolean {
  return Boolean(spec?.unschedulable) || (spec?.taints ?? []).some(({ key }) => drainTaints.has(key));
}

/** Selects pods that run, or are about to. */
export const scheduled = 'spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed';

/** What we keep of a pod that uses claims. */
export interface PodOnNode {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly nodeName: string;
  readonly claimNames: readonly string[];
  /** Whether it is being deleted, or only mirrors a pod that the kubelet started itself: no eviction would stop it. */
  readonly isBeyondEviction: boolean;
  /** Whether the API server has granted its eviction. */
  readonly isEvicted: boolean;
}

/** Undefined for pods that use no claim. */
export function podOnNode(pod: Stored<Pod>): PodOnNode | undefined {
  const { namespace = '', name, uid, deletionTimestamp, annotations } = pod.metadata;
  const claimNames = claimNamesOf(pod);
  const nodeName = pod.spec?.nodeName;
  if (claimNames.length === 0 || !nodeName) return undefined;
  const isBeyondEviction = Boolean(deletionTimestamp || annotations?.['kubernetes.io/config.mirror']);
  const isEvicted = (pod.status?.conditions ?? []).some(
    ({ type, status, reason }) =>
      type === 'DisruptionTarget' && status === 'True' && reason === 'EvictionByEvictionAPI',
  );
  return { namespace, name, uid, nodeName, claimNames, isBeyondEviction, isEvicted };
}

/** What a drain needs of a claim that is bound. */
export interface ClaimOnDrain {
  readonly uid: string;
  readonly volumeName: string;
  /** Any word. */
  readonly policy: string | undefined;
  readonly tombstone: TombstoneWord | undefined;
  /** The node whose drain has set the tombstone. */
  readonly drainedFrom: string | undefined;
  /** Whether it has the record of a pod whose volumes are being given up. */
  readonly isDropping: boolean;
  readonly hasLeft: boolean;
  /** How far its operator is. */
  readonly leaveState: string | undefined;
}

/** Undefined for one that has no volume, or is being deleted. */
export function claimOnDrain(claim: Stored<PersistentVolumeClaim>): ClaimOnDrain | undefined {
  const { metadata, spec } = claim;
  const { uid, annotations, deletionTimestamp } = metadata;
  if (!spec?.volumeName || deletionTimestamp) return undefined;
  const order = tombstoneOf(claim);
  return {
    uid,
    volumeName: spec.volumeName,
    policy: annotations?.[onDrain.annotation],
    tombstone: order?.kind === 'order' ? order.word : undefined,
    drainedFrom: annotations?.[drainedFromAnnotation],
    isDropping: annotations?.[droppingAnnotation] !== undefined,
    hasLeft: hasLeft(annotations),
    leaveState: leaveState(annotations),
  };
}

/** The annotations of a claim that order its release because of a drain. An answer to an earlier request does not count. */
export function orderOfDrain(word: TombstoneWord, nodeName: string): Readonly<Record<string, string | null>> {
  const [order] = tombstone.annotations;
  const answers = Object.values(leave).map((key) => [key, null] as const);
  return { [order]: word, [drainedFromAnnotation]: nodeName, ...Object.fromEntries(answers) };
}

/** What a drain needs of a PersistentVolume. */
export interface VolumeOnDrain {
  /** CSI's volume ID; undefined for a static volume. */
  readonly handle: string | undefined;
  readonly nodeNames: readonly string[];
  /** What its StorageClass said when it was created, or what a static volume says itself. */
  readonly policy: string | undefined;
}

/** Undefined for a volume that is not Moorage's. */
export function volumeOnDrain({ metadata, spec }: Stored<PersistentVolume>): VolumeOnDrain | undefined {
  const { annotations = {}, finalizers } = metadata;
  if (finalizers?.includes(localPvFinalizer)) {
    const node = annotations[localPvAnnotations.node];
    return { handle: undefined, nodeNames: node ? [node] : [], policy: annotations[onDrain.annotation] };
  }
  if (spec?.csi?.driver !== driverName) return undefined;
  return {
    handle: spec.csi.volumeHandle,
    nodeNames: affinityValues({ spec }, topologyKey) ?? [],
    policy: spec.csi.volumeAttributes?.[onDrain.annotation],
  };
}
