import { logicalVolumes } from '../../api/logical-volume.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import {
  explainClaim,
  explainLogicalVolume,
  explainMissingPod,
  explainNode,
  explainPod,
  explainSnapshot,
  explainStatefulSet,
  explainVolume,
} from '../../explain/explain.ts';
import type { Explanation } from '../../explain/explanation.ts';
import { Known, type Objects } from '../../explain/known.ts';
import {
  nodes,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StatefulSet,
  type Stored,
  statefulSets,
  volumeSnapshots,
} from '../../kube/resource.ts';
import {
  objectsOfClaim,
  objectsOfPersistentVolume,
  objectsOfPod,
  objectsOfRemoval,
  objectsOfSet,
  podsOfNodes,
  type Reader,
} from './read.ts';

class NothingToExplain extends MoorageError {
  readonly code = 'NotFound';
}

/** How kubectl calls the kinds. */
const kinds: readonly (readonly [RegExp, Kind])[] = [
  [/^(pvc|persistentvolumeclaims?)$/, 'claim'],
  [/^(po|pods?)$/, 'pod'],
  [/^(sts|statefulsets?)$/, 'set'],
  [/^(pv|persistentvolumes?)$/, 'volume'],
  [/^(logicalvolumes?)$/, 'logicalVolume'],
  [/^(vs|volumesnapshots?)$/, 'snapshot'],
  [/^(no|nodes?)$/, 'node'],
];
type Kind = 'claim' | 'pod' | 'set' | 'volume' | 'logicalVolume' | 'snapshot' | 'node';

/** Kinds of kubectl that are no likely names of namespaces. */
const otherKinds =
  /^(deploy|deployments?|rs|replicasets?|ds|daemonsets?|job|cj|cronjobs?|sc|storageclass(es)?|svc|service|volumemoves?)$/;
const subjects =
  'write pvc/NAME, pod/NAME, statefulset/NAME, pv/NAME, volumesnapshot/NAME, node/NAME or logicalvolume/NAME';

/** The kind that a word names, if it does: `pvc/data`. Otherwise it may name a namespace: `prod/data`. */
export function parseSubject(word: string, current: string) {
  const [first = '', ...rest] = word.split('/');
  const kind = kinds.find(([pattern]) => pattern.test(first.toLowerCase()))?.[1];
  if (rest.length > 0 && otherKinds.test(first.toLowerCase())) {
    throw new InvalidInput(`why explains no ${first}; ${subjects}; if ${first} is a namespace, use -n ${first}`);
  }
  const [namespace, name] = kind
    ? [current, rest.join('/')]
    : rest.length === 0
      ? [current, first]
      : [first, rest.join('/')];
  if (!/^[a-z0-9][a-z0-9.-]*$/.test(name)) {
    throw new InvalidInput(`${JSON.stringify(word)} names nothing; ${subjects}`);
  }
  return { kind, namespace, name };
}

/** Explains what the word names: without a kind a claim, a pod, or a StatefulSet. */
export async function explained(word: string, current: string, reader: Reader): Promise<Explanation> {
  const { kind, namespace, name } = parseSubject(word, current);
  switch (kind) {
    case undefined:
      return anyOf(name, namespace, reader);
    case 'claim':
      return (await ofClaim(name, namespace, reader)) ?? nothing(`claim ${namespace}/${name}`, reader);
    case 'pod':
      return (await ofPod(name, namespace, reader)) ?? nothing(`pod ${namespace}/${name}`, reader);
    case 'set':
      return (await ofSet(name, namespace, reader)) ?? nothing(`StatefulSet ${namespace}/${name}`, reader);
    case 'volume': {
      const pv = await reader.one(persistentVolumes, name);
      if (!pv) return nothing(`PersistentVolume ${name}`, reader);
      return explainVolume(pv, new Known(await objectsOfPersistentVolume(pv, reader)));
    }
    case 'logicalVolume': {
      const volume = await reader.one(logicalVolumes, name);
      if (!volume) return nothing(`LogicalVolume ${name}`, reader);
      return explainLogicalVolume(volume, new Known(await objectsOfRemoval([volume], reader)));
    }
    case 'snapshot': {
      const snapshot = await reader.one(volumeSnapshots, name, namespace);
      if (!snapshot) return nothing(`VolumeSnapshot ${namespace}/${name}`, reader);
      const claims = await reader.list(persistentVolumeClaims, { namespace });
      return explainSnapshot(snapshot, new Known({ claims, events: await reader.eventsOf([snapshot]) }));
    }
    case 'node': {
      const node = await reader.one(nodes, name);
      if (!node) return nothing(`node ${name}`, reader);
      return explainNode(node, new Known({ moves: await reader.list(volumeMoves) }));
    }
  }
}

function nothing(what: string, { unread }: Reader): never {
  if (unread.size > 0)
    throw new NothingToExplain(`you may not read ${[...unread].join(', ')}; ask for the right to get them`);
  throw new NothingToExplain(`there is no ${what}`);
}

async function anyOf(name: string, namespace: string, reader: Reader): Promise<Explanation> {
  const [claim, pod] = [
    await reader.one(persistentVolumeClaims, name, namespace),
    await reader.one(pods, name, namespace),
  ];
  if (claim && pod) throw new InvalidInput(`there is a claim and a pod ${name}; write pvc/${name} or pod/${name}`);
  const found =
    (claim && (await ofClaim(name, namespace, reader))) ??
    (await ofPod(name, namespace, reader)) ??
    (await ofSet(name, namespace, reader));
  return (
    found ?? nothing(`claim, pod or StatefulSet ${namespace}/${name}; see kubectl get pvc,pods -n ${namespace}`, reader)
  );
}

async function ofClaim(name: string, namespace: string, reader: Reader): Promise<Explanation | undefined> {
  const claim = await reader.one(persistentVolumeClaims, name, namespace);
  return (
    claim && counted((objects) => explainClaim(claim, new Known(objects)), await objectsOfClaim(claim, reader), reader)
  );
}

async function ofPod(name: string, namespace: string, reader: Reader): Promise<Explanation | undefined> {
  const pod: Stored<Pod> | undefined = await reader.one(pods, name, namespace);
  if (pod) return counted((objects) => explainPod(pod, new Known(objects)), await objectsOfPod(pod, reader), reader);
  const set = await reader.one(statefulSets, name.replace(/-\d+$/, ''), namespace);
  return set && missingPod(set, name, reader);
}

async function missingPod(set: Stored<StatefulSet>, podName: string, reader: Reader): Promise<Explanation | undefined> {
  return explainMissingPod(set, podName, new Known(await objectsOfSet(set, reader)));
}

async function ofSet(name: string, namespace: string, reader: Reader): Promise<Explanation | undefined> {
  const set = await reader.one(statefulSets, name, namespace);
  return (
    set && counted((objects) => explainStatefulSet(set, new Known(objects)), await objectsOfSet(set, reader), reader)
  );
}

/** CPU and memory are counted only if nothing else explains the wait, because that reads all pods of the nodes. */
async function counted(
  explain: (objects: Objects) => Explanation,
  objects: Objects,
  reader: Reader,
): Promise<Explanation> {
  const found = explain(objects);
  if (found.code !== 'NotScheduled' || !objects.nodes) return found;
  const counted = await podsOfNodes(
    objects.nodes.map(({ metadata }) => metadata.name),
    reader,
  );
  return counted ? explain({ ...objects, podsOfNodes: counted }) : found;
}
