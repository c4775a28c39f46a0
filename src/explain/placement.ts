import { claimKey, onDrain, onNodeRemoval, reserve, selectedNodeAnnotation, topologyKey } from '../api/names.ts';
import { policyWord } from '../api/policies.ts';
import { formatBytes } from '../base/quantity.ts';
import { selects } from '../kube/node-selector.ts';
import { affinityValues, keyOf, type Node, type PersistentVolume, type Pod, type Stored } from '../kube/resource.ts';
import { type Finding, listed, type ReasonCode } from './explanation.ts';
import { type Claim, eventText, type Known } from './known.ts';
import {
  isAboutStorage,
  type NeededVolume,
  nodeObstacles,
  type Obstacle,
  type ObstacleKind,
  requestedBytes,
} from './node-obstacles.ts';
import { agentOf, controllerPods } from './nodes.ts';
import { copyElsewhere, selectedNodeOf, wasSentToSource } from './provisioning.ts';

/** A node with an obstacle. */
interface Refused {
  readonly node: Stored<Node>;
  readonly first: Obstacle;
  readonly texts: readonly string[];
  /** How much it says: most if the pod could run there but for its storage, least if the pod itself does not want the node. */
  readonly weight: 'storage' | 'node' | 'pod';
}

type Volume = NeededVolume & { readonly claim: Claim };

/**
 * Why no node can run a pod, worked out from objects, node by node. If its data is on a node, or a claim is assigned to one,
 * only that node counts. Undefined if the nodes could not be read, or if no obstacle is seen on one of them.
 */
export function placementReason(pod: Stored<Pod>, known: Known): Finding | undefined {
  const { nodes } = known.objects;
  if (nodes === undefined) return undefined;
  const volumes = known.volumesOf(pod);
  const placed = volumes.filter(({ persistentVolume }) => persistentVolume?.spec?.nodeAffinity?.required);
  const gone = placed.find((volume) => nodesOf(volume, nodes).length === 0);
  if (gone) return nodeGone(gone, known);
  const common = nodes.filter((node) => placed.every((volume) => nodesOf(volume, [node]).length > 0));
  if (placed.length > 0 && common.length === 0) return apart(placed, nodes);
  const assigned = volumes.find(({ claim }) => !claim.spec?.volumeName && selectedNodeOf(claim) !== undefined);
  const only = assigned && selectedNodeOf(assigned.claim);
  const considered = only === undefined ? common : common.filter(({ metadata }) => metadata.name === only);
  const refused: Refused[] = [];
  for (const node of considered) {
    const all = nodeObstacles(pod, volumes, known.factsOf(node));
    // The volume of an assigned claim may exist already, and then its space is not free any more.
    const obstacles = assigned ? all.filter((each) => !isAboutStorage(each)) : all;
    const [first] = obstacles;
    if (!first) return undefined;
    refused.push({ node, first, texts: obstacles.map(({ text }) => text), weight: weightOf(obstacles) });
  }
  const [single] = refused;
  if (!single) return undefined;
  const [data] = placed;
  if (data && refused.length === 1) return withReservation(besideItsData(data, single, known), volumes, known);
  if (assigned) return assignedElsewhere(assigned.claim, single);
  return onNoNode(volumes, single, refused);
}

function nodesOf({ persistentVolume }: Volume, nodes: readonly Stored<Node>[]): readonly Stored<Node>[] {
  const required = persistentVolume?.spec?.nodeAffinity?.required;
  return nodes.filter(({ metadata: { name, labels = {} } }) => !required || selects(required, { name, labels }));
}

/** The names that the volume's own affinity has for its node. */
function placeOf(pv: PersistentVolume | undefined): string {
  const names = pv && (affinityValues(pv, topologyKey) ?? affinityValues(pv, 'kubernetes.io/hostname'));
  return names?.length ? `node ${names.join(' or ')}` : 'a node';
}

function nodeGone({ claim, persistentVolume }: Volume, known: Known): Finding {
  const { name, namespace, annotations } = claim.metadata;
  const place = placeOf(persistentVolume);
  const policy = annotations?.[onNodeRemoval.annotation];
  const volume = known.logicalVolumeOf(claim);
  return {
    code: 'NodeGone',
    cause: `its data is on ${place}, which no longer exists`,
    advice: 'bring the node back, or give the data up',
    evidence: [
      `PersistentVolume ${persistentVolume?.metadata?.name} of claim ${name}: only on ${place}`,
      ...(policy ? [`claim ${name}: ${onNodeRemoval.annotation} is ${policy}`] : []),
      ...(volume ? [`LogicalVolume ${volume.metadata.name}: on node ${volume.spec.nodeName}`] : []),
    ],
    remedy: [`kubectl moorage drop pvc/${name} -n ${namespace} # says what would be lost`],
  };
}

function apart(placed: readonly Volume[], nodes: readonly Stored<Node>[]): Finding {
  const places = placed.map((volume) => {
    const names = nodesOf(volume, nodes).map(({ metadata }) => metadata.name);
    return `that of claim ${volume.claim.metadata.name} on node ${names.join(' or ')}`;
  });
  const { name, namespace } = placed.at(-1)?.claim.metadata ?? {};
  return {
    code: 'VolumesApart',
    cause: `its data is on different nodes, ${listed(places)}`,
    advice: 'move a volume to the node of the other',
    evidence: placed.map(
      ({ persistentVolume: pv }) => `PersistentVolume ${pv?.metadata?.name}: only on ${placeOf(pv)}`,
    ),
    remedy: [`kubectl moorage migrate pvc/${name} -n ${namespace} --to NODE`],
  };
}

/** The pod can run on this node only. */
function onItsNode({ node, first, texts }: Refused, start: string, hasData: boolean): Finding {
  const { name } = node.metadata;
  const { code, advice, remedy } = obstacleReasons[first.kind];
  const [only = ''] = texts;
  const how =
    texts.length === 1 && only.startsWith('it is ') ? `, which ${only.slice('it '.length)}` : `: ${listed(texts)}`;
  return {
    code,
    cause: `${start} ${name}${how}`,
    advice: advice(name, hasData),
    evidence: texts.map((text) => `Node ${name}: ${text}`),
    remedy: remedy(name),
  };
}

/** With what else can be done: of a copy, which is where its source is, and of a node that does not come back soon. */
function besideItsData({ claim, persistentVolume }: Volume, refused: Refused, known: Known): Finding {
  const { name, namespace } = claim.metadata;
  const { node } = refused;
  const found = onItsNode(refused, 'its data is on node', true);
  if (found.code === 'NodeExcluded' && wasSentToSource(claim, known)) {
    const { cause } = onItsNode(refused, `its claim ${name} is a copy, and is with its source on node`, true);
    return { ...found, code: 'SourceElsewhere', cause, ...copyElsewhere(claim, node.metadata.name) };
  }
  const move = `kubectl moorage migrate pvc/${name} -n ${namespace} # or move its data to another node`;
  const drop = `kubectl moorage drop pvc/${name} -n ${namespace} # or give its data up: says what would be lost`;
  const isDrained = found.code === 'NodeCordoned' || found.code === 'NodeTainted';
  const mayBeDropped = isDrained && policyWord(onDrain.annotation, claim, persistentVolume) === 'drop';
  const others = [
    ...(found.code === 'NodeCordoned' ? [move] : []),
    ...(found.code === 'NodeNotReady' || mayBeDropped ? [drop] : []),
  ];
  const remedy = [...(found.remedy ?? []), ...others];
  if (!mayBeDropped) return { ...found, remedy };
  // A drain has not done it: the pod was deleted in another way, or nobody was leader when it was evicted.
  const evidence = [...(found.evidence ?? []), `claim ${name}: ${onDrain.annotation} is drop`];
  return { ...found, advice: `${found.advice}, or give the data up`, evidence, remedy };
}

/** Whether the pod will find CPU and memory when its node takes it again, if one of its claims asks for that. */
function withReservation(found: Finding, volumes: readonly Volume[], known: Known): Finding {
  const { placeholders } = known.objects;
  const asking = volumes.filter(({ claim }) => claim.metadata.annotations?.[reserve.annotation] === 'true');
  const [first] = asking;
  if (!first || placeholders === undefined) return found;
  const claims = new Set(asking.map(({ claim }) => keyOf(claim)));
  const placeholder = placeholders.find(
    ({ metadata, status }) => claims.has(metadata.annotations?.[claimKey] ?? '') && status?.nominatedNodeName,
  );
  const asked = `claim ${first.claim.metadata.name}: ${reserve.annotation} is true`;
  if (placeholder) {
    const { namespace, name } = placeholder.metadata;
    const evidence = [...(found.evidence ?? []), `${asked}, and pod ${namespace}/${name} keeps its room`];
    return { ...found, cause: `${found.cause}; its CPU and memory are kept there`, evidence };
  }
  const failed = asking.map(({ claim }) => known.lastEvent(claim, ['RoomNotReserved'])).find((event) => event);
  const evidence = [`${asked}, but nothing keeps its room`, ...(failed ? [eventText(failed)] : [])];
  return { ...found, evidence: [...(found.evidence ?? []), ...evidence] };
}

/** csi-provisioner keeps the choice of the scheduler, except if there is no room. */
function assignedElsewhere({ metadata }: Claim, refused: Refused): Finding {
  const found = onItsNode(refused, `its claim ${metadata.name} is assigned to node`, false);
  const again = `kubectl annotate pvc ${metadata.name} -n ${metadata.namespace} ${selectedNodeAnnotation}-`;
  return { ...found, code: 'PinnedToNode', remedy: [...(found.remedy ?? []), `${again} # choose a node again`] };
}

function weightOf(obstacles: readonly Obstacle[]): Refused['weight'] {
  if (obstacles.every(isAboutStorage)) return 'storage';
  return obstacles.some(({ kind }) => kind === 'label' || kind === 'affinity') ? 'pod' : 'node';
}

/** Each node has an obstacle. */
function onNoNode(volumes: readonly Volume[], single: Refused, all: readonly Refused[]): Finding {
  const weighing = (weight: Refused['weight']) => all.filter((each) => each.weight === weight);
  const telling = [weighing('storage'), weighing('node')].find(({ length }) => length > 0) ?? all;
  const evidence = all.map(({ node, texts }) => `Node ${node.metadata.name}: ${listed(texts)}`);
  const full = telling.filter(({ first }) => first.kind === 'no-room');
  const kinds = new Set(telling.map(({ first }) => first.kind));
  const { first, node } = full[0] ?? telling[0] ?? single;
  const each = telling.map((one) => `${one.node.metadata.name} (${one.first.text})`);
  if (full.length === 0 && kinds.size > 1) {
    return { code: 'NoNodeLeft', cause: `no node can run it: ${listed(each)}`, advice: 'remove an obstacle', evidence };
  }
  const { code, advice, remedy } = obstacleReasons[first.kind];
  const subset = telling.length < all.length ? ' that it selects' : '';
  const start = first.kind === 'too-large' ? `no node${subset} is large enough` : 'no node can run it';
  const cause = inWords(first, full, volumes, subset) ?? `${start}: ${listed(each)}`;
  return { code, cause, advice: advice(node.metadata.name, false), evidence, remedy: remedy(node.metadata.name) };
}

/** What all nodes have in common, or a subset of them. */
function inWords(
  first: Obstacle,
  full: readonly Refused[],
  volumes: readonly Volume[],
  subset: string,
): string | undefined {
  if (first.kind === 'cordoned') return `every node${subset} is cordoned`;
  if (first.kind === 'not-ready') return `no node${subset} is ready`;
  if (first.kind === 'no-device-class') return `no node that it can run on has ${first.deviceClass}`;
  if (first.kind !== 'no-room') return undefined;
  const sizes = volumes.map(({ claim }) => (claim.spec?.volumeName ? 0n : requestedBytes(claim)));
  const largest = sizes.reduce((a, b) => (a > b ? a : b), 0n);
  const free = full.flatMap(({ node, first: own }) =>
    own.kind === 'no-room' ? [`${node.metadata.name} has ${formatBytes(own.freeBytes)}`] : [],
  );
  return `no node that it can run on has ${formatBytes(largest)} free: ${listed(free)}`;
}

interface ObstacleReason {
  readonly code: ReasonCode;
  /** `hasData`: the pod has a volume there, which could be moved. */
  readonly advice: (node: string, hasData: boolean) => string;
  readonly remedy: (node: string) => readonly string[];
}

const excluded: ObstacleReason = {
  code: 'NodeExcluded',
  advice: (node, hasData) => `change the pod so that it can run on ${node}${hasData ? ', or move its volume' : ''}`,
  remedy: (node) => [`kubectl get node ${node} --show-labels`],
};
const elsewhere: ObstacleReason = { code: 'PinnedToNode', advice: () => 'let the pod run there', remedy: () => [] };
const lackOfRoom = {
  advice: () => 'free space, add a disk, or request less',
  remedy: () => ['kubectl moorage nodes', 'kubectl moorage orphans'],
};
const agent = {
  advice: (node: string) => `start the agent of Moorage on ${node}`,
  remedy: (node: string) => [agentOf(node)],
};
const publisher = {
  advice: () => "see whether Moorage's controller runs, which publishes the free space",
  remedy: () => [controllerPods],
};

/** What to do about an obstacle on the node that matters. */
const obstacleReasons: Readonly<Record<ObstacleKind, ObstacleReason>> = {
  cordoned: {
    code: 'NodeCordoned',
    advice: (node) => `run kubectl uncordon ${node}`,
    remedy: (node) => [`kubectl uncordon ${node}`],
  },
  'not-ready': {
    code: 'NodeNotReady',
    advice: (node) => `start node ${node}`,
    remedy: (node) => [`kubectl describe node ${node}`],
  },
  taint: {
    code: 'NodeTainted',
    advice: () => 'remove the taint, or give the pod a toleration',
    remedy: (node) => [`kubectl describe node ${node}`],
  },
  label: excluded,
  affinity: excluded,
  resources: {
    code: 'NodeFull',
    advice: (node, hasData) => `end other pods on ${node}${hasData ? ', or move its volume' : ', or add a node'}`,
    remedy: (node) => [`kubectl describe node ${node} # Allocated resources`],
  },
  'too-large': {
    code: 'NodeFull',
    advice: (_, hasData) => `request less, or ${hasData ? 'move its volume to a larger node' : 'add a larger node'}`,
    remedy: (node) => [`kubectl describe node ${node} # Allocatable`],
  },
  'volume-elsewhere': elsewhere,
  'selected-elsewhere': elsewhere,
  topology: {
    code: 'TopologyUnusable',
    advice: () => 'correct allowedTopologies, or add such a node',
    remedy: () => [`kubectl get nodes -L ${topologyKey}`],
  },
  'no-driver': { code: 'DriverMissing', ...agent },
  leaving: { ...elsewhere, advice: () => 'add a node' },
  'no-volume': { code: 'VolumeMissing', advice: () => 'create one', remedy: () => ['kubectl get pv'] },
  'no-device-class': {
    code: 'DeviceClassMissing',
    advice: () => 'use a StorageClass with a device class that nodes have',
    remedy: () => ['kubectl moorage nodes'],
  },
  'room-unknown': { code: 'RoomUnknown', ...agent },
  'no-room': { code: 'NoRoom', ...lackOfRoom },
  'room-unpublished': { code: 'RoomUnknown', ...publisher },
  'room-outdated': { code: 'RoomOutdated', ...publisher },
  'no-room-together': { code: 'NoRoomTogether', ...lackOfRoom },
};
