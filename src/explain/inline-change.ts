import { driverName, topologyKey } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { matchesLabels } from '../kube/node-selector.ts';
import {
  affinityValues,
  claimNamesOf,
  type Deployment,
  type Node,
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StatefulSet,
  type Stored,
} from '../kube/resource.ts';
import { claimParts, covers } from '../kube/stateful-set.ts';
import { type NodeFacts, nodeObstacles, type Obstacle } from './node-obstacles.ts';
import { effectiveRequests, shortages } from './pod-requests.ts';

/** What runs pods, as it would be after the change. */
export type Workload =
  | ({ readonly kind: 'StatefulSet' } & StatefulSet)
  | ({ readonly kind: 'Deployment' } & Deployment)
  | ({ readonly kind: 'Pod' } & Pod);

/** Where volumes are, and what their nodes have room for. */
export interface Placement {
  /** The names of the PersistentVolumes of a namespace, by claim. */
  volumes(namespace: string): Promise<ReadonlyMap<string, string>>;
  /** The node of a PersistentVolume; undefined if it is not ours. */
  nodeOf(volume: string): Promise<string | undefined>;
  /** With its pods; undefined if there is no such node. */
  facts(nodeName: string): Promise<NodeFacts | undefined>;
  /** All of the cluster. */
  nodes(): Promise<readonly Stored<Node>[]>;
}

/** Whether a pod could still run where its volumes are. */
export interface PodOnVolumeNode {
  readonly namespace: string;
  /** Pods of a Deployment have no names before they exist: then that of the Deployment. */
  readonly pod: string;
  readonly node: string;
  /** Those with a volume of ours. */
  readonly claims: readonly string[];
  /** Why not, as sentences about the node; empty if no obstacle was seen. */
  readonly obstacles: readonly string[];
  /** Whether it requests more than any node has, so that moving its data cannot help. */
  readonly isTooLarge: boolean;
}

/**
 * What a changed workload does to its pods with volumes: each is replaced, and its volume allows one node only. Pods are in the
 * order in which a StatefulSet replaces them, and those before count with what they will need. One at a time: together, what
 * is said about pods with very many labels or terms could exhaust the memory.
 */
export async function* podsAfterChange(workload: Workload, placement: Placement): AsyncGenerator<PodOnVolumeNode> {
  const replaced = new Map<string, Pod>();
  let isTooLargeEverywhere: boolean | undefined; // all pods request the same
  const { namespace = '' } = workload.metadata ?? {};
  const volumes = await placement.volumes(namespace);
  for (const { pod, claims } of plannedPods(workload, volumes)) {
    const { name = '' } = pod.metadata ?? {};
    const located: { readonly claim: string; readonly node: string }[] = [];
    for (const claim of claims) {
      const volume = volumes.get(claim);
      const node = volume === undefined ? undefined : await placement.nodeOf(volume);
      if (node) located.push({ claim, node });
    }
    const [first] = located;
    if (!first) continue;
    const facts = await placement.facts(first.node);
    const others = facts?.pods && podsBeside(facts, workload, replaced);
    const ofNode = facts && nodeObstacles(pod, [], { ...facts, pods: others });
    if (isTooLarge(ofNode)) {
      isTooLargeEverywhere ??= (await placement.nodes()).every((node) =>
        shortages(pod, node, []).some((shortage) => shortage.isTooLarge),
      );
    }
    yield {
      namespace,
      pod: name,
      node: first.node,
      claims: located.map(({ claim }) => claim),
      obstacles: [
        ...located
          .filter(({ node }) => node !== first.node)
          .map(({ claim, node }) => `the data of claim ${claim} is on node ${node}`),
        ...(ofNode?.map(({ text }) => text) ?? ['it is not in the cluster']),
      ],
      isTooLarge: isTooLarge(ofNode) && isTooLargeEverywhere === true,
    };
    replaced.set(name, { ...pod, spec: { containers: [], ...pod.spec, nodeName: first.node } });
  }
}

function isTooLarge(obstacles: readonly Obstacle[] = []): boolean {
  return obstacles.some(({ kind }) => kind === 'too-large');
}

/** What to do about a pod that requests more than any node has. */
export const tooLarge = 'no node is large enough; request less';

/** For an admission warning. */
export function changeWarning(checked: PodOnVolumeNode): string {
  const { pod, node, obstacles } = checked;
  const reasons = obstacles.join(', ');
  const todo = checked.isTooLarge ? tooLarge : `first move the data: ${movesOf(checked).join('; ')}`;
  return `pod ${pod} would not start again on node ${node}, where its data is: ${reasons}; ${todo}`;
}

/** The commands that take its volumes to another node, which a person must choose: the pod that runs may have other needs. */
export function movesOf({ namespace, claims }: PodOnVolumeNode): readonly string[] {
  return claims.map((claim) => `kubectl moorage migrate pvc/${claim} -n ${namespace} --to NODE`);
}

/** Reads what is asked for from the API server, each node once. Static volumes cannot move, and are not looked at. */
export function placementIn(client: Pick<KubeClient, 'get' | 'list'>, signal: AbortSignal): Placement {
  const known = new Map<string, Promise<NodeFacts | undefined>>();
  let all: Promise<readonly Stored<Node>[]> | undefined;
  const read = async (name: string): Promise<NodeFacts | undefined> => {
    const [node, running] = await Promise.all([
      client.get(nodes, name, { signal }),
      client.list(pods, { fieldSelector: `spec.nodeName=${name}`, signal }),
    ]);
    return node && { node, pods: running.items };
  };
  return {
    async volumes(namespace) {
      const project = ({ metadata, spec }: Stored<PersistentVolumeClaim>) => [metadata.name, spec?.volumeName] as const;
      const { items } = await client.list(persistentVolumeClaims, { namespace, project, signal });
      return new Map(items.flatMap(([claim, volume]) => (volume ? [[claim, volume]] : [])));
    },
    async nodeOf(name) {
      const volume = await client.get(persistentVolumes, name, { signal });
      return volume?.spec?.csi?.driver === driverName ? affinityValues(volume, topologyKey)?.[0] : undefined;
    },
    nodes: () => (all ??= client.list(nodes, { signal }).then(({ items }) => items)),
    facts(name) {
      const facts = known.get(name) ?? read(name);
      known.set(name, facts);
      return facts;
    },
  };
}

interface PlannedPod {
  readonly pod: Pod;
  readonly claims: readonly string[];
}

/** More pods with one and the same claim are not looked at: they share its node, and a kubelet runs 110 pods by default. */
const mostSharing = 250;

/**
 * Those that may have a volume. Anybody may send a workload, with any number of replicas: the volumes that exist decide how
 * many pods are looked at, and each is built when it is needed.
 */
function* plannedPods(workload: Workload, volumes: ReadonlyMap<string, string>): Generator<PlannedPod> {
  if (workload.kind === 'Pod') {
    return void (yield { pod: { ...workload, spec: summedUp(workload.spec) }, claims: claimNamesOf(workload) });
  }
  const { name = '', namespace = '' } = workload.metadata ?? {};
  const { template, replicas = 1 } = workload.spec ?? {};
  const spec = summedUp(template?.spec);
  const podNamed = (podName: string): Pod => ({
    metadata: { ...template?.metadata, name: podName, namespace },
    spec,
  });
  const shared = mountedClaims(template?.spec);
  if (workload.kind === 'Deployment') {
    if (replicas > 0) yield { pod: podNamed(name), claims: shared };
    return;
  }
  const start = workload.spec?.ordinals?.start ?? 0;
  const own = claimsByOrdinal(workload, volumes);
  const ordinals = new Set([...own.keys()].filter((ordinal) => covers({ start, replicas }, ordinal)));
  const last = start + replicas - 1;
  const sharing = shared.some((claim) => volumes.has(claim)) ? mostSharing : 0;
  for (let count = 0; count < sharing && last - count >= start; count++) ordinals.add(last - count);
  for (const ordinal of [...ordinals].sort((a, b) => b - a)) {
    yield { pod: podNamed(`${name}-${ordinal}`), claims: [...(own.get(ordinal) ?? []), ...shared] };
  }
}

/** Summed up in one container, because the requests are counted for each pod on each node. */
function summedUp(spec: Pod['spec']): NonNullable<Pod['spec']> {
  const requests = effectiveRequests({ ...(spec && { spec }) });
  return {
    ...spec,
    containers: [{ name: 'all', resources: { requests } }],
    initContainers: [],
    overhead: {},
    resources: {},
  };
}

/** The claims with a volume that the set has created for its pods. */
function claimsByOrdinal(
  { metadata, spec }: StatefulSet,
  volumes: ReadonlyMap<string, string>,
): ReadonlyMap<number, readonly string[]> {
  const templates = new Set(spec?.volumeClaimTemplates?.map((template) => template.metadata?.name));
  const found = new Map<number, readonly string[]>();
  for (const claim of volumes.keys()) {
    const parts = claimParts(metadata?.name ?? '', claim);
    if (parts && templates.has(parts.template)) found.set(parts.ordinal, [...(found.get(parts.ordinal) ?? []), claim]);
  }
  return found;
}

/** Claims that exist before the pod: an ephemeral volume is created with it. */
function mountedClaims(spec: Pod['spec']): readonly string[] {
  const names = (spec?.volumes ?? []).map(({ persistentVolumeClaim: claim }) => claim?.claimName);
  return [...new Set(names)].filter((name) => name !== undefined);
}

/** The pods of a node while the next one starts: those that were replaced before it are there in their new form. */
function podsBeside(
  { node, pods = [] }: NodeFacts,
  workload: Workload,
  replaced: ReadonlyMap<string, Pod>,
): readonly Pod[] {
  const { namespace } = workload.metadata ?? {};
  const isReplaced = ({ metadata }: Pod) => metadata?.namespace === namespace && replaced.has(metadata?.name ?? '');
  return [
    ...pods.filter((pod) => !isReplaced(pod) && !isRecreated(workload, pod)),
    ...[...replaced.values()].filter(({ spec }) => spec?.nodeName === node.metadata.name),
  ];
}

/** All old pods of such a Deployment end before a new one starts; otherwise both need room at once. */
function isRecreated(workload: Workload, { metadata }: Pod): boolean {
  if (workload.kind !== 'Deployment' || workload.spec?.strategy?.type !== 'Recreate') return false;
  if (metadata?.namespace !== workload.metadata?.namespace) return false;
  return matchesLabels(workload.spec.selector, metadata?.labels ?? {});
}
