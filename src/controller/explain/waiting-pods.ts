import type { LogicalVolume } from '../../api/logical-volume.ts';
import { driverName, topologyKey } from '../../api/names.ts';
import type { VolumeMove } from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import { RateLimit } from '../../base/rate-limit.ts';
import type { Work } from '../../base/work.ts';
import { explainClaim } from '../../explain/explain.ts';
import { type Claim, Known, type Objects } from '../../explain/known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Reporter, writeEvent } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  affinityValues,
  type CsiNode,
  type CsiStorageCapacity,
  claimNamesOf,
  type Node,
  nodes,
  type PersistentVolume,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StorageClass,
  type Stored,
  storageClasses,
} from '../../kube/resource.ts';
import type { PublishedCapacity } from '../capacity/plan.ts';
import type { RegisteredNode } from '../capacity/storage-capacities.ts';
import type { WaitingPod } from '../node-removal/stranded-pods.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list'>;
  /** Those that wait to be scheduled. */
  readonly pods: Pick<Informer<Pod, WaitingPod | undefined>, 'get' | 'onChange'>;
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'whenSynced'>;
  readonly moves: Pick<Informer<VolumeMove>, 'list' | 'whenSynced'>;
  readonly csiNodes: Pick<Informer<CsiNode, RegisteredNode>, 'list' | 'whenSynced'>;
  readonly published: Pick<Informer<CsiStorageCapacity, PublishedCapacity>, 'list' | 'whenSynced'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** A pod that finds its place within this time does not wait for anything. */
const patienceMs = 10_000;

/** Events are optional: many pods that wait must not keep the API server busy. */
const looks = { burst: 20, perSecond: 5 };
/** For pods that may run on any node. */
const nodesAreRecentMs = 10_000;

/**
 * Reports on each claim of ours why its pod is not scheduled, once for each reason: the sentence of `kubectl moorage why`,
 * where users look first. It looks when the scheduler has changed what it says about the pod, and never polls. What passes
 * by itself is not reported, so neither are moves in progress, which report themselves.
 */
export function waitingPods(collaborators: Collaborators): Work {
  const { client, pods: waiting, reporter, clock } = collaborators;
  /** The codes of the last reasons, by pod: the same reason with other numbers is not reported again. */
  const reported = new Map<string, string>();
  const rate = new RateLimit({ clock, ...looks });
  const allNodes = new RecentList(() => clock.monotonic());

  const watch: Work['watch'] = (queue) => [
    waiting.onChange(({ kind, key }) => {
      if (kind === 'deleted') reported.delete(key);
      else queue.addAfter(key, patienceMs);
    }),
  ];

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const seen = waiting.get(key);
    if (!seen) return Requeue.never;
    await rate.take(signal);
    const objects = await objectsAround(seen, collaborators, allNodes, signal);
    const known = new Known(objects);
    const found = (objects.claims ?? [])
      .filter((claim) => isOurs(claim, known))
      .map((claim) => ({ claim, explanation: explainClaim(claim, known) }));
    const stuck = found.filter(({ explanation: { severity } }) => severity === 'stuck');
    const codes = stuck.map(({ claim, explanation }) => `${claim.metadata.name} ${explanation.code}`).join();
    if (stuck.length === 0) reported.delete(key);
    if (stuck.length === 0 || reported.get(key) === codes || !waiting.get(key)) return Requeue.never;
    for (const { claim, explanation } of stuck) {
      const { namespace, name, uid } = claim.metadata;
      const event = {
        type: 'Warning',
        reason: explanation.code,
        action: 'Waiting',
        message: explanation.sentence,
      } as const;
      await writeEvent(
        client,
        reporter,
        { resource: persistentVolumeClaims, namespace, name, uid },
        event,
        clock.now(),
        signal,
      );
    }
    reported.set(key, codes);
    return Requeue.never;
  };

  return { name: 'waiting-pods', watch, reconcile, concurrency: 2, leaderOnly: true };
}

function isOurs(claim: Claim, known: Known): boolean {
  const { volumeName = '' } = claim.spec ?? {};
  const provisioner = known.classOf(claim)?.provisioner;
  return (
    known.persistentVolume(volumeName)?.spec?.csi?.driver === driverName || (!volumeName && provisioner === driverName)
  );
}

/** What the explanation of the claims of a waiting pod depends on. Who uses CPU and memory, and Events, are not known here. */
async function objectsAround(
  seen: WaitingPod,
  collaborators: Collaborators,
  allNodes: RecentList,
  signal: AbortSignal,
): Promise<Objects> {
  const { client, volumes, moves, csiNodes, published } = collaborators;
  await Promise.all([volumes, moves, csiNodes, published].map((informer) => informer.whenSynced(signal)));
  const { namespace, name } = seen;
  const inNamespace = { namespace, fieldSelector: `metadata.name=${name}`, signal };
  const { items: own }: { items: readonly Stored<Pod>[] } = await client.list(pods, inNamespace);
  const claims: Claim[] = [];
  const bound: Stored<PersistentVolume>[] = [];
  for (const claimName of new Set(own.flatMap(claimNamesOf))) {
    const claim = await client.get(persistentVolumeClaims, claimName, { namespace, signal });
    const volumeName = claim?.spec?.volumeName;
    const pv = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
    if (claim) claims.push(claim);
    if (pv) bound.push(pv);
  }
  const { items: classes }: { items: readonly Stored<StorageClass>[] } = await client.list(storageClasses, { signal });
  return {
    pods: own,
    claims,
    persistentVolumes: bound,
    storageClasses: classes,
    nodes: await nodesFor(bound, client, allNodes, signal),
    logicalVolumes: volumes.list(),
    moves: moves.list(),
    csiNodes: csiNodes.list().map(toCsiNode),
    capacities: published.list().map(toCapacity),
  };
}

/** A volume has one node; only a pod without a volume may run on any. */
async function nodesFor(
  bound: readonly Stored<PersistentVolume>[],
  client: Collaborators['client'],
  allNodes: RecentList,
  signal: AbortSignal,
): Promise<readonly Stored<Node>[]> {
  const placed = bound.find(({ spec }) => spec?.csi?.driver === driverName);
  const names = placed && affinityValues(placed, topologyKey);
  if (!names?.length) return allNodes.read(() => client.list(nodes, { signal }));
  return (await client.list(nodes, { labelSelector: `${topologyKey} in (${names.join(',')})`, signal })).items;
}

/** All nodes, read again only after a while: many pods may wait at the same time. */
class RecentList {
  readonly #now: () => number;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #list: readonly Stored<Node>[] = [];

  constructor(now: () => number) {
    this.#now = now;
  }

  async read(list: () => Promise<{ readonly items: readonly Stored<Node>[] }>): Promise<readonly Stored<Node>[]> {
    if (this.#now() - this.#readAtMs > nodesAreRecentMs) {
      this.#list = (await list()).items;
      this.#readAtMs = this.#now();
    }
    return this.#list;
  }
}

function toCsiNode({ name, hasDriver }: RegisteredNode): Stored<CsiNode> {
  const drivers = hasDriver ? [{ name: driverName, nodeID: name }] : [];
  return { metadata: { name, uid: '', resourceVersion: '', creationTimestamp: '' }, spec: { drivers } };
}

function toCapacity({ nodeName, storageClass, capacity }: PublishedCapacity): CsiStorageCapacity {
  return { storageClassName: storageClass, capacity, nodeTopology: { matchLabels: { [topologyKey]: nodeName } } };
}
