import {
  currentBytes,
  deleting,
  isSnapshot,
  isSnapshotOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { capacityAnnotationPrefix, defaultCapacityAnnotation, driverName } from '../../api/names.ts';
import { isSilent } from '../../explain/nodes.ts';
import { claimNamesOf, type Node, type PersistentVolume, type Pod, type Stored } from '../../kube/resource.ts';
import { chooseTarget } from '../../moves/choose-target.ts';
import { staticVolumeFacts } from '../static-volumes.ts';

/** The objects of the cluster that decide. */
export interface EvacuationFacts {
  readonly nodeName: string;
  /** Only to this node, if given. */
  readonly targetNode: string | undefined;
  readonly stopBarePods: boolean;
  readonly nodes: readonly Stored<Node>[];
  /** Those of the node. */
  readonly volumes: readonly StoredLogicalVolume[];
  readonly persistentVolumes: readonly Stored<PersistentVolume>[];
  readonly pods: readonly Stored<Pod>[];
  /** The claims that move already, as `namespace/name`. */
  readonly moving: ReadonlySet<string>;
}

/** One volume that moves. `-o json` shows it so. */
export interface PlannedMove {
  readonly namespace: string;
  readonly claim: string;
  readonly sizeBytes: bigint;
  readonly to: string;
  readonly pods: readonly string[];
  /** How long the slowest of its pods may take to stop; the last changes are copied after that. */
  readonly stopSeconds: number;
  /** Snapshots that stay behind, with the volume that they depend on. */
  readonly snapshots: readonly string[];
}

/** Something that does not move, and why. */
export interface Staying {
  readonly what: string;
  readonly sizeBytes: bigint;
  readonly reason: string;
  /** Whether its data is gone when the pods or the node are. */
  readonly isLost: boolean;
}

export interface EvacuationPlan {
  readonly moves: readonly PlannedMove[];
  readonly staying: readonly Staying[];
  readonly totalBytes: bigint;
}

/** Where each volume of a node would go. Volumes of one pod go together; what is planned takes room from the next ones. */
export function planEvacuation(facts: EvacuationFacts): EvacuationPlan {
  const { nodeName, volumes, persistentVolumes } = facts;
  const byHandle = new Map(persistentVolumes.map((volume) => [volume.spec?.csi?.volumeHandle ?? '', volume]));
  const moves: PlannedMove[] = [];
  const staying: Staying[] = [];
  const movable = new Map<string, StoredLogicalVolume>();
  for (const volume of volumes.filter((each) => !deleting(each))) {
    const id = volumeIdOf(volume);
    const { claimRef } = byHandle.get(id)?.spec ?? {};
    const isBound = byHandle.get(id)?.status?.phase === 'Bound';
    const claim = claimRef?.name && isBound ? `${claimRef.namespace}/${claimRef.name}` : undefined;
    const obstacle = claim === undefined ? 'no claim is bound to it' : obstacleOf(claim, volume, facts);
    if (claim !== undefined && obstacle === undefined) movable.set(claim, volume);
    else if (!isSnapshot(volume)) {
      staying.push({
        what: claim === undefined ? `LogicalVolume ${volume.metadata.name}` : `claim ${claim}`,
        sizeBytes: currentBytes(volume),
        reason: obstacle ?? '',
        isLost: false,
      });
    }
  }
  const taken = new Map<string, bigint>();
  const bytesOfGroup = ({ claims }: Group) =>
    claims.reduce((sum, claim) => sum + Number(sizeOf(movable.get(claim))), 0);
  const largestFirst = groupsOf([...movable.keys()], facts).toSorted((a, b) => bytesOfGroup(b) - bytesOfGroup(a));
  for (const group of largestFirst) {
    const outcome = place(group, movable, facts, taken);
    if ('reason' in outcome) {
      for (const claim of group.claims) {
        const sizeBytes = sizeOf(movable.get(claim));
        staying.push({ what: `claim ${claim}`, sizeBytes, reason: outcome.reason, isLost: false });
      }
    } else moves.push(...outcome.moves);
  }
  return {
    moves,
    staying: [...staying, ...staticVolumes(nodeName, persistentVolumes), ...inlineVolumes(nodeName, facts.pods)],
    totalBytes: moves.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0n),
  };
}

function obstacleOf(claim: string, { status }: StoredLogicalVolume, facts: EvacuationFacts): string | undefined {
  const { moving, nodes, nodeName } = facts;
  const source = nodes.find(({ metadata }) => metadata.name === nodeName);
  if (source && isSilent(source)) return `node ${nodeName} is not Ready, and a move needs its agent`;
  if (status?.missingFrom) return 'it is not on the disks of the node; see kubectl moorage orphans';
  return moving.has(claim) ? 'it moves already; see kubectl moorage moves' : undefined;
}

/** Claims that must move together, because a pod uses all of them. */
interface Group {
  readonly claims: readonly string[];
  readonly pods: readonly Stored<Pod>[];
}

function groupsOf(claims: readonly string[], { pods }: EvacuationFacts): readonly Group[] {
  let groups: Group[] = claims.map((claim) => ({ claims: [claim], pods: [] }));
  for (const pod of pods.filter(isAlive)) {
    const used = new Set(claimsOf(pod));
    const together = groups.filter((group) => group.claims.some((claim) => used.has(claim)));
    if (together.length === 0) continue;
    const merged = {
      claims: together.flatMap((group) => group.claims),
      pods: [...new Set([...together.flatMap((group) => group.pods), pod])],
    };
    groups = [...groups.filter((group) => !together.includes(group)), merged];
  }
  return groups;
}

function place(
  { claims, pods }: Group,
  volumes: ReadonlyMap<string, StoredLogicalVolume>,
  facts: EvacuationFacts,
  taken: Map<string, bigint>,
): { readonly moves: readonly PlannedMove[] } | { readonly reason: string } {
  const bare = facts.stopBarePods ? undefined : pods.find(isBare);
  if (bare) return { reason: `nothing would start pod ${bare.metadata.name} again; use --stop-bare-pods` };
  const pinned = pinnedClaims(facts.persistentVolumes);
  for (const pod of pods) {
    const other = claimsOf(pod).find((claim) => pinned.has(claim));
    if (other) return { reason: `pod ${pod.metadata.name} also uses claim ${other}, whose volume does not move` };
  }
  const bytes = new Map<string, bigint>();
  for (const claim of claims) {
    const deviceClass = volumes.get(claim)?.spec.deviceClass ?? '';
    bytes.set(deviceClass, (bytes.get(deviceClass) ?? 0n) + sizeOf(volumes.get(claim)));
  }
  const { nodeName: sourceNode, targetNode } = facts;
  const freeBytes = (node: Stored<Node>, deviceClass: string) => {
    const free = freeBytesOn(node, deviceClass);
    return free === undefined ? undefined : free - (taken.get(`${node.metadata.name}/${deviceClass}`) ?? 0n);
  };
  const choice = chooseTarget({ sourceNode, targetNode, bytes, pods, busy: new Set(), freeBytes }, facts.nodes);
  if (choice.kind === 'none') return { reason: choice.reason };
  const to = choice.kind === 'node' ? choice.name : '';
  for (const [deviceClass, more] of bytes) {
    const key = `${to}/${deviceClass}`;
    taken.set(key, (taken.get(key) ?? 0n) + more);
  }
  const stopSeconds = Math.max(0, ...pods.map(({ spec }) => spec?.terminationGracePeriodSeconds ?? 30));
  return {
    moves: claims.map((key) => {
      const [namespace = '', claim = ''] = key.split('/');
      const users = pods.filter((pod) => claimsOf(pod).includes(key)).map(({ metadata }) => metadata.name);
      const snapshots = snapshotsOf(volumes.get(key), facts.volumes);
      return { namespace, claim, sizeBytes: sizeOf(volumes.get(key)), to, pods: users, stopSeconds, snapshots };
    }),
  };
}

/** Of static volumes, whoever creates them. */
function pinnedClaims(persistentVolumes: readonly Stored<PersistentVolume>[]): ReadonlySet<string> {
  const local = persistentVolumes.filter(({ spec }) => spec?.local && spec.claimRef?.name);
  return new Set(local.map(({ spec }) => `${spec?.claimRef?.namespace}/${spec?.claimRef?.name}`));
}

/** As the node has last reported it. */
export function freeBytesOn({ metadata }: Stored<Node>, deviceClass: string): bigint | undefined {
  const name = deviceClass === '' ? defaultCapacityAnnotation : `${capacityAnnotationPrefix}${deviceClass}`;
  const free = metadata.annotations?.[name];
  return free !== undefined && /^\d+$/.test(free) ? BigInt(free) : undefined;
}

function snapshotsOf(source: StoredLogicalVolume | undefined, all: readonly StoredLogicalVolume[]): readonly string[] {
  if (!source) return [];
  return all.filter((volume) => isSnapshotOf(volume, source)).map(({ metadata }) => metadata.name);
}

/** Their PersistentVolumes name their node for good. */
function staticVolumes(nodeName: string, persistentVolumes: readonly Stored<PersistentVolume>[]): readonly Staying[] {
  const written = persistentVolumes.flatMap((volume) => staticVolumeFacts(volume) ?? []);
  return written
    .filter(({ node }) => node === nodeName)
    .map(({ name, sizeBytes }) => ({
      what: `static volume ${name}`,
      sizeBytes,
      reason: 'static volumes do not move',
      isLost: false,
    }));
}

/** The inline volumes of pods end with their pods. */
function inlineVolumes(nodeName: string, pods: readonly Stored<Pod>[]): readonly Staying[] {
  const here = pods.filter((pod) => pod.spec?.nodeName === nodeName && isAlive(pod));
  return here.flatMap(({ metadata, spec }) =>
    (spec?.volumes ?? [])
      .filter(({ csi }) => csi?.driver === driverName)
      .map(({ name }) => ({
        what: `inline volume ${name} of pod ${metadata.namespace}/${metadata.name}`,
        sizeBytes: 0n,
        reason: 'it ends with its pod',
        isLost: true,
      })),
  );
}

function claimsOf(pod: Stored<Pod>): readonly string[] {
  return claimNamesOf(pod).map((name) => `${pod.metadata.namespace}/${name}`);
}

function isAlive({ status }: Pod): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

function isBare({ metadata }: Stored<Pod>): boolean {
  return !metadata.ownerReferences?.some(({ controller }) => controller);
}

function sizeOf(volume: StoredLogicalVolume | undefined): bigint {
  return volume ? currentBytes(volume) : 0n;
}
