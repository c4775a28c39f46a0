import {
  capacityAnnotationPrefix,
  claimKey,
  defaultCapacityAnnotation,
  driverName,
  parameters,
  selectedNodeAnnotation,
  topologyKey,
} from '../api/names.ts';
import { formatBytes, parseQuantity } from '../base/quantity.ts';
import { allowsNode, matchesLabels, selectorText, selects } from '../kube/node-selector.ts';
import { type PodConstraint, podConstraints } from '../kube/pod-constraints.ts';
import {
  affinityValues,
  type CsiStorageCapacity,
  claimNamesOf,
  type Node,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type StorageClass,
  type Stored,
} from '../kube/resource.ts';
import { misfit } from './fitting-volume.ts';
import { shortages } from './pod-requests.ts';

/** A claim of a pod, with what belongs to it. Undefined: there is none, or it could not be read; then nothing is said about it. */
export interface NeededVolume {
  readonly claim: PersistentVolumeClaim;
  /** Of a claim that names one. */
  readonly persistentVolume?: PersistentVolume | undefined;
  readonly storageClass?: StorageClass | undefined;
}

/** A node, and what is known about it. Undefined: it could not be read, and nothing is concluded from it. */
export interface NodeFacts {
  readonly node: Stored<Node>;
  /** The pods of the node. */
  readonly pods?: readonly Pod[] | undefined;
  /** Placeholders, which reserve room there for pods that will return. */
  readonly reserving?: readonly Pod[] | undefined;
  /** The CSI drivers that are registered there; none if the node has no CSINode. */
  readonly drivers?: readonly string[] | undefined;
  /** CSIStorageCapacities, at least of this node. Undefined also if the CSIDriver does not let the scheduler use them. */
  readonly capacities?: readonly CsiStorageCapacity[] | undefined;
  /** PersistentVolumes that are not bound, which claims may get. */
  readonly unbound?: readonly PersistentVolume[] | undefined;
}

/** What only the storage of the node decides. */
const storageKinds = [
  'topology',
  'no-driver',
  'leaving',
  'no-volume',
  'no-device-class',
  'room-unknown',
  'room-unpublished',
  'no-room',
  'room-outdated',
  'no-room-together',
] as const;

export type ObstacleKind =
  | PodConstraint['kind']
  | 'resources'
  | 'too-large'
  | 'volume-elsewhere'
  | 'selected-elsewhere'
  | (typeof storageKinds)[number];

export type Obstacle = {
  /** Continues a sentence about the node: `it is cordoned`. */
  readonly text: string;
} & (
  | { readonly kind: Exclude<ObstacleKind, 'no-room' | 'no-device-class'> }
  | { readonly kind: 'no-room'; readonly freeBytes: bigint }
  /** `deviceClass`: in words, such as `device class ssd`. */
  | { readonly kind: 'no-device-class'; readonly deviceClass: string }
);

export function isAboutStorage({ kind }: Obstacle): boolean {
  return storageKinds.some((each) => each === kind);
}

/**
 * What keeps a pod with these claims from a node, in the order in which kube-scheduler looks: the pod's own constraints, CPU
 * and memory, then its volumes. Topology spread, inter-pod affinity, ports, devices and extenders are not evaluated, so an
 * empty answer means "no obstacle seen", never "it fits".
 */
export function nodeObstacles(pod: Pod, volumes: readonly NeededVolume[], facts: NodeFacts): readonly Obstacle[] {
  const { node, pods, reserving = [] } = facts;
  const reserved = reserving.filter((placeholder) => isCounted(placeholder, pod));
  const lacking = pods === undefined ? [] : shortages(pod, node, [...pods, ...reserved]);
  const claims = reserved.map((placeholder) => claimOf(placeholder)).join(', ');
  const because = claims && `; room is reserved there for the pod of claim ${claims}`;
  return [
    ...podConstraints(pod, node),
    ...lacking.map(({ resource, needed, left, isTooLarge }): Obstacle => {
      const text = `it has ${left} ${resource} left, ${needed} requested`;
      return isTooLarge ? { kind: 'too-large', text } : { kind: 'resources', text: `${text}${because}` };
    }),
    ...volumes.flatMap((volume) => volumeObstacle(volume, facts) ?? []),
    ...tooMuchTogether(volumes, facts),
  ];
}

/** The scheduler counts a placeholder for pods of its priority or a lower one. It gives way to its own pod. */
function isCounted(placeholder: Pod, pod: Pod): boolean {
  const isOwn = claimNamesOf(pod).some((name) => `${pod.metadata?.namespace}/${name}` === claimOf(placeholder));
  return !isOwn && (placeholder.spec?.priority ?? 0) >= (pod.spec?.priority ?? 0);
}

/** The claim whose pod a placeholder keeps room for, `namespace/name`. */
function claimOf({ metadata }: Pod): string {
  return metadata?.annotations?.[claimKey] ?? '';
}

/** The most specific one. */
function volumeObstacle(
  { claim, persistentVolume, storageClass }: NeededVolume,
  facts: NodeFacts,
): Obstacle | undefined {
  const claimName = claim.metadata?.name;
  const { name, labels = {} } = facts.node.metadata;
  if (claim.spec?.volumeName) {
    const required = persistentVolume?.spec?.nodeAffinity?.required;
    if (!required || selects(required, { name, labels })) return undefined;
    const own = persistentVolume && affinityValues(persistentVolume, topologyKey);
    const place = own?.length ? `node ${own.join(' or ')}` : `nodes with ${selectorText(required)}`;
    return { kind: 'volume-elsewhere', text: `the data of claim ${claimName} is on ${place}` };
  }
  const chosen = claim.metadata?.annotations?.[selectedNodeAnnotation];
  if (chosen !== undefined && chosen !== name) {
    return { kind: 'selected-elsewhere', text: `claim ${claimName} is assigned to node ${chosen}` };
  }
  const isThere = (volume: PersistentVolume) =>
    !volume.spec?.nodeAffinity?.required || selects(volume.spec.nodeAffinity.required, { name, labels });
  if (facts.unbound?.some((volume) => isThere(volume) && misfit(volume, claim) === undefined)) return undefined;
  if (storageClass?.provisioner === 'kubernetes.io/no-provisioner') {
    if (facts.unbound === undefined) return undefined;
    const text = `it has no available PersistentVolume of class ${storageClass.metadata?.name} for claim ${claimName}`;
    return { kind: 'no-volume', text };
  }
  if (!allowsNode(storageClass?.allowedTopologies, labels)) {
    return {
      kind: 'topology',
      text: `allowedTopologies of StorageClass ${storageClass?.metadata?.name} leaves it out`,
    };
  }
  return storageClass?.provisioner === driverName ? roomObstacle(claim, storageClass, facts) : undefined;
}

/** For a new volume of ours. */
function roomObstacle(
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
  facts: NodeFacts,
): Obstacle | undefined {
  const { node, drivers, capacities } = facts;
  if (drivers && !drivers.includes(driverName)) {
    return { kind: 'no-driver', text: 'Moorage does not run there: its CSINode does not list the driver topolvm.io' };
  }
  if (node.metadata.deletionTimestamp) return { kind: 'leaving', text: 'it is being deleted' };
  const needed = requestedBytes(claim);
  const reported = reportedBytes(node, storageClass);
  if (reported === undefined) return unreported(node, storageClass);
  if (needed > reported) {
    const text = `it has ${formatBytes(reported)} free, ${formatBytes(needed)} requested`;
    return { kind: 'no-room', text, freeBytes: reported };
  }
  if (capacities === undefined) return undefined;
  const published = capacities.filter((each) => isAbout(each, node, storageClass));
  if (published.length === 0) {
    const text = `the scheduler does not know its free space: no CSIStorageCapacity of class ${storageClass.metadata?.name}`;
    return { kind: 'room-unpublished', text };
  }
  const largest = published.map(publishedBytes).reduce((a, b) => (a > b ? a : b));
  if (needed <= largest) return undefined;
  const text =
    `the scheduler counts ${formatBytes(largest)} free, but it has ${formatBytes(reported)}; ` +
    `${formatBytes(needed)} requested`;
  return { kind: 'room-outdated', text };
}

function unreported({ metadata }: Stored<Node>, storageClass: StorageClass): Obstacle {
  const reports = Object.keys(metadata.annotations ?? {}).some((key) => key.startsWith(capacityAnnotationPrefix));
  if (!reports) return { kind: 'room-unknown', text: 'it does not report any free space' };
  const name = deviceClassOf(storageClass);
  const words = name === '' ? 'default device class' : `device class ${name}`;
  return { kind: 'no-device-class', text: `it has no ${words}`, deviceClass: words };
}

/** The scheduler checks one claim after the other, and would let them fail together. */
function tooMuchTogether(volumes: readonly NeededVolume[], facts: NodeFacts): readonly Obstacle[] {
  const byClass = new Map<string, { needed: bigint; reported: bigint; largest: bigint }>();
  for (const { claim, storageClass } of volumes) {
    if (claim.spec?.volumeName || storageClass?.provisioner !== driverName) continue;
    const reported = reportedBytes(facts.node, storageClass);
    if (reported === undefined) continue;
    const { needed, largest } = byClass.get(deviceClassOf(storageClass)) ?? { needed: 0n, largest: 0n };
    const own = requestedBytes(claim);
    byClass.set(deviceClassOf(storageClass), {
      needed: needed + own,
      reported,
      largest: own > largest ? own : largest,
    });
  }
  return [...byClass.values()]
    .filter(({ needed, reported, largest }) => needed > reported && largest <= reported)
    .map(({ needed, reported }) => ({
      kind: 'no-room-together',
      text: `it has ${formatBytes(reported)} free, and the claims of the pod request ${formatBytes(needed)} together`,
    }));
}

export function requestedBytes({ spec }: PersistentVolumeClaim): bigint {
  return parseQuantity(spec?.resources?.requests?.['storage'] ?? '0');
}

/** The empty one is the default class. */
function deviceClassOf({ parameters: given }: StorageClass): string {
  return given?.[parameters.deviceClass] ?? '';
}

/** What the agent of the node last reported. */
function reportedBytes({ metadata }: Stored<Node>, storageClass: StorageClass): bigint | undefined {
  const deviceClass = deviceClassOf(storageClass);
  const annotation = deviceClass === '' ? defaultCapacityAnnotation : `${capacityAnnotationPrefix}${deviceClass}`;
  const text = metadata.annotations?.[annotation];
  return text !== undefined && /^\d+$/.test(text) ? BigInt(text) : undefined;
}

function isAbout(
  { nodeTopology, storageClassName }: CsiStorageCapacity,
  { metadata: { labels = {} } }: Stored<Node>,
  storageClass: StorageClass,
): boolean {
  if (storageClassName !== storageClass.metadata?.name) return false;
  return nodeTopology !== undefined && matchesLabels(nodeTopology, labels);
}

function publishedBytes({ capacity = '0', maximumVolumeSize }: CsiStorageCapacity): bigint {
  return parseQuantity(maximumVolumeSize ?? capacity);
}
