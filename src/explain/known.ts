import type { StoredLogicalVolume } from '../api/logical-volume.ts';
import { driverName, topologyKey } from '../api/names.ts';
import type { NodeStorage } from '../api/node-storage.ts';
import type { Stored } from '../api/object.ts';
import { claimOfMove, isOver, type StoredVolumeMove } from '../api/volume-move.ts';
import {
  affinityValues,
  type CsiDriver,
  type CsiNode,
  type CsiStorageCapacity,
  claimNamesOf,
  type Event,
  type KubeObject,
  keyOf,
  type Node,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type StatefulSet,
  type StorageClass,
  type VolumeSnapshot,
} from '../kube/resource.ts';
import type { NeededVolume, NodeFacts } from './node-obstacles.ts';

export type Claim = Stored<PersistentVolumeClaim>;

/**
 * Objects of a cluster. A list holds at least what the explained object refers to; it may hold more. Undefined: it could not
 * be read, which is never taken for "there is none".
 */
export interface Objects {
  readonly claims?: readonly Claim[] | undefined;
  /** Of the namespace; those of other namespaces only count as users of nodes. */
  readonly pods?: readonly Stored<Pod>[] | undefined;
  /** All pods of the nodes that are evaluated. */
  readonly podsOfNodes?: readonly Pod[] | undefined;
  /** Pods that reserve room for others. */
  readonly placeholders?: readonly Stored<Pod>[] | undefined;
  readonly persistentVolumes?: readonly Stored<PersistentVolume>[] | undefined;
  readonly storageClasses?: readonly Stored<StorageClass>[] | undefined;
  readonly nodes?: readonly Stored<Node>[] | undefined;
  readonly csiNodes?: readonly Stored<CsiNode>[] | undefined;
  readonly csiDrivers?: readonly Stored<CsiDriver>[] | undefined;
  readonly capacities?: readonly CsiStorageCapacity[] | undefined;
  readonly logicalVolumes?: readonly StoredLogicalVolume[] | undefined;
  readonly nodeStorages?: readonly Stored<NodeStorage>[] | undefined;
  readonly moves?: readonly StoredVolumeMove[] | undefined;
  readonly events?: readonly Stored<Event>[] | undefined;
  readonly statefulSets?: readonly Stored<StatefulSet>[] | undefined;
  readonly snapshots?: readonly Stored<VolumeSnapshot>[] | undefined;
}

/** What is known of a cluster, with indexes that are built when they are first needed. */
export class Known {
  readonly objects: Objects;
  readonly #byKey = new Map<readonly KubeObject[], ReadonlyMap<string, KubeObject>>();
  #podsByNode: ReadonlyMap<string, readonly Pod[]> | undefined;
  #capacitiesByNode: ReadonlyMap<string, readonly CsiStorageCapacity[]> | undefined;

  constructor(objects: Objects) {
    this.objects = objects;
  }

  claim(namespace: string | undefined, name: string): Claim | undefined {
    return this.#get(this.objects.claims, `${namespace}/${name}`);
  }

  persistentVolume(name: string): Stored<PersistentVolume> | undefined {
    return this.#get(this.objects.persistentVolumes, name);
  }

  node(name: string): Stored<Node> | undefined {
    return this.#get(this.objects.nodes, name);
  }

  storageClass(name: string): Stored<StorageClass> | undefined {
    return this.#get(this.objects.storageClasses, name);
  }

  statefulSet(namespace: string | undefined, name: string): Stored<StatefulSet> | undefined {
    return this.#get(this.objects.statefulSets, `${namespace}/${name}`);
  }

  nodeStorage(name: string): Stored<NodeStorage> | undefined {
    return this.#get(this.objects.nodeStorages, name);
  }

  pod(namespace: string | undefined, name: string): Stored<Pod> | undefined {
    return this.#get(this.objects.pods, `${namespace}/${name}`);
  }

  /** The class of a claim; undefined also if it has none. */
  classOf({ spec }: PersistentVolumeClaim): Stored<StorageClass> | undefined {
    return spec?.storageClassName ? this.storageClass(spec.storageClassName) : undefined;
  }

  /** The pods that name a claim and are not over. */
  usersOf({ metadata }: Claim): readonly Stored<Pod>[] {
    return this.namesakes(metadata).filter(({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed');
  }

  /** All pods that name a claim, also those that are over. */
  namesakes({ namespace, name }: { readonly namespace?: string; readonly name: string }): readonly Stored<Pod>[] {
    return (this.objects.pods ?? []).filter(
      (pod) => pod.metadata.namespace === namespace && claimNamesOf(pod).includes(name),
    );
  }

  /** The LogicalVolume of a claim's volume: by the volume's ID, or by its name while it is being created. */
  logicalVolumeOf(claim: Claim): StoredLogicalVolume | undefined {
    const pv = claim.spec?.volumeName ? this.persistentVolume(claim.spec.volumeName) : undefined;
    return pv ? this.logicalVolumeOfPv(pv) : this.#get(this.objects.logicalVolumes, `pvc-${claim.metadata.uid}`);
  }

  logicalVolumeOfPv(pv: Stored<PersistentVolume>): StoredLogicalVolume | undefined {
    const handle = pv.spec?.csi?.driver === driverName ? pv.spec.csi.volumeHandle : undefined;
    if (!handle) return undefined;
    const [node] = affinityValues(pv, topologyKey) ?? [];
    return this.objects.logicalVolumes?.find(
      ({ spec, status }) => status?.volumeID === handle && (node === undefined || spec.nodeName === node),
    );
  }

  /** The move of a claim that is not over. */
  moveOf(claim: Claim): StoredVolumeMove | undefined {
    return this.objects.moves?.find((move) => !isOver(move) && claimOfMove(move) === keyOf(claim));
  }

  /** Oldest first. */
  eventsOf({ metadata }: { readonly metadata: { readonly uid: string } }): readonly Stored<Event>[] {
    return (this.objects.events ?? [])
      .filter(({ regarding }) => regarding?.uid === metadata.uid)
      .toSorted((a, b) => eventTime(a) - eventTime(b));
  }

  /** The newest of these kinds whose note matches. */
  lastEvent(object: { readonly metadata: { readonly uid: string } }, reasons: readonly string[], note = /(?:)/) {
    return this.eventsOf(object).findLast(
      (event) => reasons.includes(event.reason ?? '') && note.test(event.note ?? ''),
    );
  }

  /** What the claims of a pod are or need. Claims that are not known are left out. */
  volumesOf(pod: Stored<Pod>): readonly (NeededVolume & { readonly claim: Claim })[] {
    return claimNamesOf(pod).flatMap((name) => {
      const claim = this.claim(pod.metadata.namespace, name);
      if (!claim) return [];
      const { volumeName } = claim.spec ?? {};
      const persistentVolume = volumeName ? this.persistentVolume(volumeName) : undefined;
      return [{ claim, persistentVolume, storageClass: this.classOf(claim) }];
    });
  }

  factsOf(node: Stored<Node>): NodeFacts {
    const { podsOfNodes, placeholders, csiNodes, capacities, csiDrivers, persistentVolumes } = this.objects;
    const { name, labels = {} } = node.metadata;
    const drivers: { readonly name: string }[] | null | undefined = this.#get(csiNodes, name)?.spec.drivers;
    const driver = csiDrivers?.find(({ metadata }) => metadata.name === driverName);
    const isTracked = csiDrivers === undefined || driver?.spec.storageCapacity === true;
    this.#podsByNode ??= grouped(podsOfNodes ?? [], ({ spec }) => spec?.nodeName ?? '');
    this.#capacitiesByNode ??= grouped(
      capacities ?? [],
      ({ nodeTopology }) => nodeTopology?.matchLabels?.[topologyKey] ?? '',
    );
    const own = labels[topologyKey] ? (this.#capacitiesByNode.get(labels[topologyKey]) ?? []) : [];
    return {
      node,
      pods: podsOfNodes && (this.#podsByNode.get(name) ?? []),
      reserving: placeholders?.filter(({ status }) => status?.nominatedNodeName === name),
      drivers: csiNodes && (drivers ?? []).map((each) => each.name),
      capacities: capacities && isTracked ? [...own, ...(this.#capacitiesByNode.get('') ?? [])] : undefined,
      unbound: persistentVolumes?.filter(({ status }) => status?.phase !== 'Bound'),
    };
  }

  #get<T extends KubeObject>(list: readonly T[] | undefined, key: string): T | undefined {
    if (!list) return undefined;
    const index = this.#byKey.get(list) ?? new Map(list.map((object) => [keyOf(object), object]));
    this.#byKey.set(list, index);
    return index.get(key) as T | undefined;
  }
}

function grouped<T>(objects: readonly T[], keyOf: (object: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const object of objects) {
    const group = groups.get(keyOf(object));
    if (group) group.push(object);
    else groups.set(keyOf(object), [object]);
  }
  return groups;
}

export function eventTime(event: Stored<Event>): number {
  const { series, eventTime, deprecatedLastTimestamp, metadata } = event;
  return Date.parse(series?.lastObservedTime ?? deprecatedLastTimestamp ?? eventTime ?? metadata.creationTimestamp);
}

/** An Event as evidence. */
export function eventText({ reason, note = '' }: Event): string {
  return `Event ${reason}: ${note.replaceAll('\n', ' ')}`;
}
