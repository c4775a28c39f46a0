import { logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { driverName, reserve, topologyKey } from '../../api/names.ts';
import { nodeStorages } from '../../api/node-storage.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import type { Claim, Objects } from '../../explain/known.ts';
import { isReady } from '../../explain/stateful-set.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient, ListOptions } from '../../kube/client.ts';
import {
  affinityValues,
  claimNamesOf,
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  type Event,
  events,
  type KubeObject,
  nodes,
  type PersistentVolume,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  type StatefulSet,
  type Stored,
  statefulSets,
  storageClasses,
  volumeSnapshots,
} from '../../kube/resource.ts';

/** Reads what an explanation needs, with the rights of the user, and remembers what could not be read. */
export class Reader {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  /** Kinds that the user may not read. */
  readonly unread = new Set<string>();

  constructor(client: KubeClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
  }

  /** Undefined if the user may not. A kind that the cluster does not have has no objects. */
  async list<T extends KubeObject>(resource: Resource<T>, options: ListOptions<T, Stored<T>> = {}) {
    const read = await this.#allowed(resource, () => this.#client.list(resource, { ...options, signal: this.#signal }));
    return read === 'missing' ? [] : read?.items;
  }

  /** Those of them that exist; undefined if the user may not. */
  async get<T extends KubeObject>(resource: Resource<T>, names: readonly string[], namespace?: string) {
    const found: Stored<T>[] = [];
    for (const name of new Set(names)) {
      const read = await this.#allowed(resource, () =>
        this.#client.get(resource, name, { namespace, signal: this.#signal }),
      );
      if (read === 'missing') continue;
      if (read === undefined && this.unread.has(resource.plural)) return undefined;
      if (read) found.push(read);
    }
    return found;
  }

  async one<T extends KubeObject>(resource: Resource<T>, name: string, namespace?: string) {
    return (await this.get(resource, [name], namespace))?.[0];
  }

  async eventsOf(objects: readonly { readonly metadata: { readonly uid: string; readonly namespace?: string } }[]) {
    const all: Stored<Event>[] = [];
    for (const { metadata } of objects) {
      const fieldSelector = `regarding.uid=${metadata.uid}`;
      const found = await this.list(events, { namespace: metadata.namespace ?? 'default', fieldSelector });
      if (!found) return undefined;
      all.push(...found);
    }
    return all;
  }

  async #allowed<R>(
    { plural }: { readonly plural: string },
    read: () => Promise<R>,
  ): Promise<R | undefined | 'missing'> {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.isNotFound) return 'missing';
      if (error.status !== 403) throw error;
      this.unread.add(plural);
      return undefined;
    }
  }
}

/** What the explanation of a claim depends on. */
export async function objectsOfClaim(claim: Claim, reader: Reader): Promise<Objects> {
  const { namespace } = claim.metadata;
  const inNamespace = await reader.list(pods, { namespace });
  const users = inNamespace?.filter((pod) => claimNamesOf(pod).includes(claim.metadata.name)) ?? [];
  const waiting = users.filter(({ status }) => status?.phase === 'Pending');
  const isGoing = claim.metadata.deletionTimestamp !== undefined;
  const others = isGoing
    ? await reader.list(persistentVolumeClaims, { namespace })
    : await reader.get(persistentVolumeClaims, waiting.flatMap(claimNamesOf), namespace);
  const claims = [claim, ...(others ?? []).filter(({ metadata }) => metadata.name !== claim.metadata.name)];
  return {
    ...(await nodesOf(users, reader)),
    ...(await objectsOfVolumes(claims, waiting.filter(isUnscheduled), reader)),
    claims,
    pods: inNamespace,
    events: await reader.eventsOf([claim, ...waiting]),
    ...(isGoing && { snapshots: await reader.list(volumeSnapshots, { namespace }) }),
  };
}

/** What the explanation of a pod depends on. */
export async function objectsOfPod(pod: Stored<Pod>, reader: Reader): Promise<Objects> {
  const { namespace } = pod.metadata;
  const claims = await reader.get(persistentVolumeClaims, claimNamesOf(pod), namespace);
  const isWaiting = pod.status?.phase === 'Pending';
  const neighbours = isWaiting ? await reader.list(pods, { namespace }) : [pod];
  const set = pod.metadata.ownerReferences?.find(({ kind }) => kind === statefulSets.kind);
  return {
    ...(await nodesOf([pod], reader)),
    ...(await objectsOfVolumes(claims ?? [], isUnscheduled(pod) ? [pod] : [], reader)),
    claims,
    pods: neighbours,
    events: isWaiting ? await reader.eventsOf([pod, ...(claims ?? [])]) : [],
    ...(set && { statefulSets: await reader.get(statefulSets, [set.name], namespace) }),
  };
}

/** What the explanation of a StatefulSet depends on: its pods, and everything about the first that is missing or waits. */
export async function objectsOfSet(set: Stored<StatefulSet>, reader: Reader): Promise<Objects> {
  const { namespace, name } = set.metadata;
  const inNamespace = await reader.list(pods, { namespace });
  const own =
    inNamespace?.filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uid === set.metadata.uid)) ?? [];
  const waiting = own.find(({ status }) => status?.phase === 'Pending');
  const templates = set.spec?.volumeClaimTemplates ?? [];
  const claimNames = Array.from(
    { length: (set.spec?.replicas ?? 1) + 1 },
    (_, i) => (set.spec?.ordinals?.start ?? 0) + i,
  );
  const wanted = new Set(claimNames.flatMap((i) => templates.map(({ metadata }) => `${metadata?.name}-${name}-${i}`)));
  const claims = (await reader.list(persistentVolumeClaims, { namespace }))?.filter(
    ({ metadata }) => wanted.has(metadata.name) || own.some((pod) => claimNamesOf(pod).includes(metadata.name)),
  );
  const ofWaiting = claims?.filter(({ metadata }) => waiting && claimNamesOf(waiting).includes(metadata.name)) ?? [];
  return {
    ...(await nodesOf(
      own.filter((pod) => !isReady(pod)),
      reader,
    )),
    ...(await objectsOfVolumes(ofWaiting, waiting && isUnscheduled(waiting) ? [waiting] : [], reader)),
    claims,
    pods: inNamespace,
    statefulSets: [set],
    events: await reader.eventsOf([set, ...(waiting ? [waiting] : []), ...ofWaiting]),
  };
}

/** What the explanation of a PersistentVolume depends on. */
export async function objectsOfPersistentVolume(pv: Stored<PersistentVolume>, reader: Reader): Promise<Objects> {
  const volumes = await logicalVolumesOf([pv], [], reader);
  return {
    persistentVolumes: [pv],
    logicalVolumes: volumes,
    ...(await objectsOfRemoval(volumes ?? [], reader)),
    events: await reader.eventsOf([pv]),
  };
}

export async function objectsOfRemoval(volumes: readonly StoredLogicalVolume[], reader: Reader): Promise<Objects> {
  const names = volumes.filter(({ metadata }) => metadata.deletionTimestamp).map(({ spec }) => spec.nodeName);
  return { nodes: await reader.get(nodes, names), nodeStorages: await reader.get(nodeStorages, names) };
}

/** Those of pods that have one. */
async function nodesOf(users: readonly Stored<Pod>[], reader: Reader): Promise<Objects> {
  const names = users.flatMap(({ spec, status }) =>
    spec?.nodeName && (status?.phase === 'Pending' || status?.phase === 'Running') ? [spec.nodeName] : [],
  );
  return names.length > 0 ? { nodes: await reader.get(nodes, names) } : {};
}

function isUnscheduled({ spec, status }: Stored<Pod>): boolean {
  return status?.phase === 'Pending' && !spec?.nodeName;
}

/** Volumes, classes and moves of the claims, and if a pod is not scheduled, the nodes that it may run on. */
async function objectsOfVolumes(
  claims: readonly Claim[],
  unscheduled: readonly Stored<Pod>[],
  reader: Reader,
): Promise<Objects> {
  const [claim] = claims;
  const classes = await reader.list(storageClasses);
  const unbound = claims.filter(({ status }) => status?.phase !== 'Bound');
  const isByHand = unbound.some(({ spec }) => {
    const own = classes?.find(({ metadata }) => metadata.name === spec?.storageClassName);
    return own?.provisioner === 'kubernetes.io/no-provisioner';
  });
  const names = claims.flatMap(({ spec }) => spec?.volumeName ?? []);
  const volumes = isByHand ? await reader.list(persistentVolumes) : await reader.get(persistentVolumes, names);
  const named = volumes?.filter(({ metadata }) => names.includes(metadata.name)) ?? [];
  return {
    storageClasses: classes,
    csiDrivers: await reader.list(csiDrivers),
    persistentVolumes: volumes,
    logicalVolumes: await logicalVolumesOf(named, unbound, reader),
    moves: claim ? await reader.list(volumeMoves, { namespace: claim.metadata.namespace }) : [],
    ...(unscheduled.length > 0 && {
      placeholders: await reader.list(pods, { labelSelector: reserve.label }),
      ...(await objectsOfNodes(named, unbound.length > 0, reader)),
    }),
  };
}

/** By the ID of the volume, or by the claim while it is being created. */
async function logicalVolumesOf(
  volumes: readonly Stored<PersistentVolume>[],
  unbound: readonly Claim[],
  reader: Reader,
): Promise<readonly StoredLogicalVolume[] | undefined> {
  const found: StoredLogicalVolume[] = [];
  for (const { spec } of volumes) {
    if (spec?.csi?.driver !== driverName) continue;
    const read = await reader.list(logicalVolumes, { fieldSelector: `status.volumeID=${spec.csi.volumeHandle}` });
    if (!read) return undefined;
    found.push(...read);
  }
  const requested = await reader.get(
    logicalVolumes,
    unbound.map(({ metadata }) => `pvc-${metadata.uid}`),
  );
  return requested && [...found, ...requested];
}

/** Only the nodes of volumes that have some: others do not matter then. */
async function objectsOfNodes(
  volumes: readonly Stored<PersistentVolume>[],
  needsRoom: boolean,
  reader: Reader,
): Promise<Objects> {
  const places = volumes.map((volume) => affinityValues(volume, topologyKey) ?? []);
  const isPlaced = places.length > 0 && places.every((names) => names.length > 0);
  const labelSelector = `${topologyKey} in (${[...new Set(places.flat())].join(',')})`;
  const found = await reader.list(nodes, isPlaced ? { labelSelector } : {});
  if (!needsRoom) return { nodes: found };
  const ours = `csi.storage.k8s.io/drivername=${driverName}`;
  const [registered, capacities] = await Promise.all([
    reader.list(csiNodes),
    reader.list(csiStorageCapacities, { labelSelector: ours }),
  ]);
  return { nodes: found, csiNodes: registered, capacities };
}

/** The pods of nodes, to count CPU and memory; at most of this many nodes, because there may be thousands of pods. */
const countedNodes = 10;

export async function podsOfNodes(names: readonly string[], reader: Reader): Promise<readonly Pod[] | undefined> {
  if (names.length > countedNodes) return undefined;
  const lists = await Promise.all(names.map((name) => reader.list(pods, { fieldSelector: `spec.nodeName=${name}` })));
  return lists.some((list) => list === undefined) ? undefined : lists.flatMap((list) => list ?? []);
}
