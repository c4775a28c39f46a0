import {
  bytesOf,
  currentBytes,
  deleting,
  failureOf,
  growthFailureOf,
  isEncrypted,
  isSnapshot,
  logicalVolumes,
  removalFailureOf,
  type StoredLogicalVolume,
} from '../api/logical-volume.ts';
import {
  claimKey,
  driverName,
  moveAnnotation,
  nodeRemovedAnnotation,
  pendingDeletionAnnotation,
  topologyKey,
} from '../api/names.ts';
import { type NodeStorage, type NodeStorageStatus, nodeStorages } from '../api/node-storage.ts';
import { MoorageError } from '../base/errors.ts';
import { isSilent, notReady } from '../explain/nodes.ts';
import { isNotFound } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import {
  affinityValues,
  claimNamesOf,
  keyOf,
  type Node,
  nodes,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../kube/resource.ts';

import { claimOf } from './claim-ref.ts';
import { type StaticVolumeFacts, staticVolumeFacts } from './static-volumes.ts';

/**
 * What the screens need of the objects in a cluster. Lists are read in pages of 500, and of each object only this is kept:
 * there may be tens of thousands.
 */
export interface Facts {
  readonly volumes: readonly VolumeFacts[];
  /** By the ID of the volume. */
  readonly persistentVolumes: ReadonlyMap<string, PersistentVolumeFacts>;
  readonly staticVolumes: readonly StaticVolumeFacts[];
  /** By `namespace/name`. */
  readonly claims: ReadonlyMap<string, ClaimFacts>;
  /** The pods that use a claim, by `namespace/name` of the claim. */
  readonly users: ReadonlyMap<string, readonly string[]>;
  /** The pods of agents, as `namespace/name`, by node. Empty if only one namespace was read. */
  readonly agents: ReadonlyMap<string, string>;
}

/** Of a LogicalVolume. */
export interface VolumeFacts {
  readonly name: string;
  readonly node: string;
  /** Empty for the node's default class. */
  readonly deviceClass: string;
  readonly sizeBytes: bigint;
  readonly createdAt: string;
  /** On the node's disks; undefined until the volume exists. */
  readonly volumeId: string | undefined;
  /** As the annotation says; the PersistentVolume is asked first. */
  readonly claim: string | undefined;
  readonly isSnapshot: boolean;
  readonly isEncrypted: boolean;
  readonly isDeleting: boolean;
  readonly isNodeGone: boolean;
  readonly isMissing: boolean;
  /** It is the target of a move that is not over. */
  readonly isReceiving: boolean;
  readonly failure: string | undefined;
  readonly growthFailure: string | undefined;
  readonly removalFailure: string | undefined;
}

export interface PersistentVolumeFacts {
  readonly name: string;
  readonly handle: string;
  readonly phase: string;
  readonly storageClass: string;
  readonly claim: string | undefined;
  /** By its node affinity. */
  readonly node: string | undefined;
  readonly sizeBytes: bigint;
  readonly isRetained: boolean;
  readonly createdAt: string;
  /** When it came into its phase; older API servers do not say. */
  readonly phaseSince: string | undefined;
}

export interface ClaimFacts {
  readonly phase: string;
  readonly isGrowing: boolean;
}

export interface NodeFacts {
  readonly name: string;
  readonly status: NodeStorageStatus | undefined;
}

/** Of a Node. */
export interface NodeState {
  readonly name: string;
  /** Why it is not ready, to continue a sentence about it; undefined if it is. */
  readonly unready: string | undefined;
}

export interface Scope {
  /** Undefined for all. */
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
}

export async function readFacts(client: KubeClient, { namespace, signal }: Scope): Promise<Facts> {
  const [volumes, pvs, claims, podList] = await Promise.all([
    readVolumes(client, signal),
    client.list(persistentVolumes, { project: eitherVolumeFacts, signal }),
    client.list(persistentVolumeClaims, { project: claimFacts, namespace, signal }),
    client.list(pods, { project: podFacts, namespace, signal }),
  ]);
  return factsOf({ volumes, persistentVolumes: pvs.items, claims: claims.items, pods: podList.items });
}

/** What is kept of each object, before it is put together. */
export interface FactsByObject {
  readonly volumes: readonly VolumeFacts[];
  readonly persistentVolumes: readonly ReturnType<typeof eitherVolumeFacts>[];
  readonly claims: readonly ReturnType<typeof claimFacts>[];
  readonly pods: readonly ReturnType<typeof podFacts>[];
}

export function factsOf({ volumes, persistentVolumes, claims, pods }: FactsByObject): Facts {
  const users = new Map<string, string[]>();
  for (const { name, claims } of pods) {
    for (const claim of claims) users.set(claim, [...(users.get(claim) ?? []), name]);
  }
  return {
    volumes,
    persistentVolumes: new Map(persistentVolumes.flatMap(({ provisioned: pv }) => (pv ? [[pv.handle, pv]] : []))),
    staticVolumes: persistentVolumes.flatMap(({ written }) => written ?? []),
    claims: new Map(claims),
    users,
    agents: new Map(pods.flatMap(({ agent }) => (agent ? [agent] : []))),
  };
}

/** A cluster with static volumes only does not have the kind. */
async function readVolumes(client: KubeClient, signal: AbortSignal): Promise<readonly VolumeFacts[]> {
  try {
    return (await client.list(logicalVolumes, { project: volumeFacts, signal })).items;
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

/** A PersistentVolume that Moorage has provisioned, or one that an administrator wrote; or neither. */
export function eitherVolumeFacts(volume: Stored<PersistentVolume>) {
  return { provisioned: persistentVolumeFacts(volume), written: staticVolumeFacts(volume) };
}

/** A volume of the driver, or a static one. */
export function isOfMoorage(volume: Stored<PersistentVolume>): boolean {
  return volume.spec?.csi?.driver === driverName || staticVolumeFacts(volume) !== undefined;
}

/** Undefined if the cluster has no such kind, because Moorage is older there. */
export async function readNodes(client: KubeClient, signal: AbortSignal): Promise<readonly NodeFacts[] | undefined> {
  try {
    return (await client.list(nodeStorages, { project: nodeFacts, signal })).items;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

export function nodeFacts({ metadata, status }: Stored<NodeStorage>): NodeFacts {
  return { name: metadata.name, status };
}

/** The names of the Nodes in the cluster. */
export async function readNodeNames(client: KubeClient, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const { items } = await client.list(nodes, { project: ({ metadata }) => metadata.name, signal });
  return new Set(items);
}

export async function readNodeStates(client: KubeClient, signal: AbortSignal): Promise<readonly NodeState[]> {
  return (await client.list(nodes, { project: nodeState, signal })).items;
}

export function nodeState(node: Stored<Node>): NodeState {
  return { name: node.metadata.name, unready: isSilent(node) ? notReady(node) : undefined };
}

export function volumeFacts(volume: StoredLogicalVolume): VolumeFacts {
  const { metadata, spec, status } = volume;
  const { annotations = {} } = metadata;
  return {
    name: metadata.name,
    node: spec.nodeName,
    deviceClass: spec.deviceClass ?? '',
    sizeBytes: currentBytes(volume),
    createdAt: metadata.creationTimestamp,
    volumeId: status?.volumeID || undefined,
    claim: annotations[claimKey],
    isSnapshot: isSnapshot(volume),
    isEncrypted: isEncrypted(volume),
    isDeleting: deleting(volume),
    isNodeGone: nodeRemovedAnnotation in annotations || pendingDeletionAnnotation in annotations,
    isMissing: Boolean(status?.missingFrom),
    isReceiving: moveAnnotation in annotations,
    failure: failureOf(volume)?.message,
    growthFailure: growthFailureOf(volume)?.message,
    removalFailure: removalFailureOf(volume)?.message,
  };
}

/** By its node affinity. */
export function nodeOf(volume: PersistentVolume): string | undefined {
  return affinityValues(volume, topologyKey)?.[0];
}

/** The volume's ID connects both; their names may differ if somebody wrote the PersistentVolume by hand. */
export async function readLogicalVolumeOf(
  client: KubeClient,
  volume: Stored<PersistentVolume>,
  signal: AbortSignal,
): Promise<StoredLogicalVolume | undefined> {
  const handle = volume.spec?.csi?.volumeHandle;
  if (!handle) return undefined;
  const { items } = await client.list(logicalVolumes, { fieldSelector: `status.volumeID=${handle}`, signal });
  return logicalVolumeOf(volume, items);
}

/** `candidates` have its volume ID, which two nodes may both use. */
export function logicalVolumeOf(
  volume: Stored<PersistentVolume>,
  candidates: readonly StoredLogicalVolume[],
): StoredLogicalVolume | undefined {
  const node = nodeOf(volume);
  const [first, ...others] = candidates.filter(({ spec }) => node === undefined || spec.nodeName === node);
  if (first && others.length > 0) throw new AmbiguousVolume(volume, [first, ...others]);
  return first;
}

export class AmbiguousVolume extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor({ metadata, spec }: Stored<PersistentVolume>, found: readonly StoredLogicalVolume[]) {
    const names = found.map((each) => `${each.metadata.name} on node ${each.spec.nodeName}`).join(', ');
    super(
      `PersistentVolume ${metadata.name} may stand for any of LogicalVolumes ${names}: all have the volume ID ` +
        `${spec?.csi?.volumeHandle}; give the PersistentVolume a node affinity with ${topologyKey}`,
    );
  }
}

/** Undefined for a volume of another driver. */
export function persistentVolumeFacts(volume: Stored<PersistentVolume>) {
  const { metadata, spec, status } = volume;
  if (spec?.csi?.driver !== driverName) return undefined;
  const claim = claimOf(volume);
  const facts: PersistentVolumeFacts = {
    name: metadata.name,
    handle: spec.csi.volumeHandle,
    phase: status?.phase ?? '',
    storageClass: spec.storageClassName ?? '',
    claim: claim && `${claim.namespace}/${claim.name}`,
    node: nodeOf({ spec }),
    sizeBytes: bytesOf(spec.capacity?.['storage'] ?? 0),
    isRetained: spec.persistentVolumeReclaimPolicy === 'Retain',
    createdAt: metadata.creationTimestamp,
    phaseSince: status?.lastPhaseTransitionTime,
  };
  return facts;
}

export function claimFacts(claim: Stored<PersistentVolumeClaim>): readonly [string, ClaimFacts] {
  const conditions = claim.status?.conditions ?? [];
  const isGrowing = conditions.some(({ type, status }) => /Resiz/.test(type) && status === 'True');
  return [keyOf(claim), { phase: claim.status?.phase ?? '', isGrowing }];
}

export function podFacts(pod: Stored<Pod>) {
  const { metadata, spec, status } = pod;
  const { name, namespace, labels = {} } = metadata;
  const isOver = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  const claims = isOver ? [] : claimNamesOf(pod).map((claim) => `${namespace}/${claim}`);
  const isAgent = Object.entries(agentLabels).every(([key, value]) => labels[key] === value);
  const agent = isAgent && spec?.nodeName ? ([spec.nodeName, `${namespace}/${name}`] as const) : undefined;
  return { name, claims, agent };
}

/** As the chart sets them. */
const agentLabels = { 'app.kubernetes.io/name': 'moorage', 'app.kubernetes.io/component': 'node' };
