import { driverName, topologyKey } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { matchesLabels } from '../kube/node-selector.ts';
import {
  affinityValues,
  claimNamesOf,
  type Deployment,
  type Node,
  nodes,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StatefulSet,
  type Stored,
} from '../kube/resource.ts';
import { type NodeFacts, nodeObstacles, type Obstacle } from './node-obstacles.ts';

/** What runs pods, as it would be after the change. */
export type Workload =
  | ({ readonly kind: 'StatefulSet' } & StatefulSet)
  | ({ readonly kind: 'Deployment' } & Deployment)
  | ({ readonly kind: 'Pod' } & Pod);

/** Where volumes are, and what their nodes have room for. */
export interface Placement {
  /** The node of a claim's volume; undefined if the claim has no volume of ours. */
  nodeOf(namespace: string, claim: string): Promise<string | undefined>;
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
 * order in which a StatefulSet replaces them, and those before count with what they will need.
 */
export async function podsAfterChange(workload: Workload, placement: Placement): Promise<readonly PodOnVolumeNode[]> {
  const replaced: Pod[] = [];
  const found: PodOnVolumeNode[] = [];
  for (const { pod, claims } of plannedPods(workload)) {
    const { name = '', namespace = '' } = pod.metadata ?? {};
    const places = await Promise.all(claims.map((claim) => placement.nodeOf(namespace, claim)));
    const located = claims.flatMap((claim, index) => (places[index] ? [{ claim, node: places[index] }] : []));
    const [first] = located;
    if (!first) continue;
    const facts = await placement.facts(first.node);
    const others = facts?.pods && podsBeside(facts, workload, replaced);
    const ofNode = facts && nodeObstacles(pod, [], { ...facts, pods: others });
    found.push({
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
      isTooLarge: isTooLarge(ofNode) && (await placement.nodes()).every((node) => isTooLarge(alone(pod, node))),
    });
    replaced.push({ ...pod, spec: { containers: [], ...pod.spec, nodeName: first.node } });
  }
  return found;
}

/** The obstacles for a pod on a node that has no other pod. */
function alone(pod: Pod, node: Stored<Node>): readonly Obstacle[] {
  return nodeObstacles(pod, [], { node, pods: [] });
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
  const read = async (name: string): Promise<NodeFacts | undefined> => {
    const [node, running] = await Promise.all([
      client.get(nodes, name, { signal }),
      client.list(pods, { fieldSelector: `spec.nodeName=${name}`, signal }),
    ]);
    return node && { node, pods: running.items };
  };
  return {
    async nodeOf(namespace, name) {
      const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
      const volumeName = claim?.spec?.volumeName;
      const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
      return volume?.spec?.csi?.driver === driverName ? affinityValues(volume, topologyKey)?.[0] : undefined;
    },
    nodes: async () => (await client.list(nodes, { signal })).items,
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

function plannedPods(workload: Workload): readonly PlannedPod[] {
  const { name = '', namespace = '' } = workload.metadata ?? {};
  if (workload.kind === 'Pod') return [{ pod: workload, claims: claimNamesOf(workload) }];
  const { template, replicas = 1 } = workload.spec ?? {};
  const podNamed = (podName: string): Pod => ({
    metadata: { ...template?.metadata, name: podName, namespace },
    ...(template?.spec && { spec: template.spec }),
  });
  if (workload.kind === 'Deployment') {
    const pod = podNamed(name);
    return replicas > 0 ? [{ pod, claims: mountedClaims(pod) }] : [];
  }
  const first = workload.spec?.ordinals?.start ?? 0;
  const templates = workload.spec?.volumeClaimTemplates ?? [];
  return Array.from({ length: replicas }, (_, index) => `${name}-${first + replicas - 1 - index}`).map((podName) => {
    const pod = podNamed(podName);
    const own = templates.map(({ metadata }) => `${metadata?.name}-${podName}`);
    return { pod, claims: [...own, ...mountedClaims(pod)] };
  });
}

/** Claims that exist before the pod: an ephemeral volume is created with it. */
function mountedClaims({ spec }: Pod): readonly string[] {
  return (spec?.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) => (claim ? [claim.claimName] : []));
}

/** The pods of a node while the next one starts: those that were replaced before it are there in their new form. */
function podsBeside({ node, pods = [] }: NodeFacts, workload: Workload, replaced: readonly Pod[]): readonly Pod[] {
  const isGone = (pod: Pod) =>
    replaced.some(({ metadata }) => isSame(metadata, pod.metadata)) || isRecreated(workload, pod);
  return [
    ...pods.filter((pod) => !isGone(pod)),
    ...replaced.filter(({ spec }) => spec?.nodeName === node.metadata.name),
  ];
}

/** All old pods of such a Deployment end before a new one starts; otherwise both need room at once. */
function isRecreated(workload: Workload, { metadata }: Pod): boolean {
  if (workload.kind !== 'Deployment' || workload.spec?.strategy?.type !== 'Recreate') return false;
  if (metadata?.namespace !== workload.metadata?.namespace) return false;
  return matchesLabels(workload.spec.selector, metadata?.labels ?? {});
}

function isSame(a: Pod['metadata'], b: Pod['metadata']): boolean {
  return a?.name === b?.name && a?.namespace === b?.namespace;
}
