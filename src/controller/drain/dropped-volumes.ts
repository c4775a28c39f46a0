import { droppingAnnotation } from '../../api/names.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../../kube/resource.ts';
import { decide } from './decide.ts';
import {
  type ClaimOnDrain,
  claimOnDrain,
  isDraining,
  orderOfDrain,
  type PodOnNode,
  type VolumeOnDrain,
  volumeOnDrain,
} from './drained-objects.ts';
import { type DrainingPod, drainedPod } from './drained-pod.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'get' | 'list' | 'patch'>;
  readonly clock: Clock;
}

interface PodCollaborators extends Collaborators {
  /** Those that run and use claims. */
  readonly pods: Pick<Informer<Pod, PodOnNode | undefined>, 'onChange'>;
  readonly log: Log;
}

interface ClaimCollaborators extends Collaborators {
  readonly claims: Pick<Informer<PersistentVolumeClaim, { readonly onDrain: ClaimOnDrain | undefined }>, 'onChange'>;
}

interface EvictedPod {
  readonly pod: PodOnNode;
  /** It may be gone before it is looked at. */
  readonly isGone: boolean;
  /** Decided once: a drain that begins while the pod terminates has not evicted it. */
  readonly isDecided: boolean;
}

/**
 * Decides to give up the volumes of pods that were evicted, if the policy is `drop`, and records it on the first claim. Only
 * the API server says that an eviction was granted, in a condition of the pod: anybody can call the webhook. If there was no
 * leader while the pod had the condition, its data stays.
 */
export function evictedPods({ client, pods: running, clock, log }: PodCollaborators): Work {
  const evicted = new Map<string, EvictedPod>();
  const watch: Work['watch'] = (queue) => [
    running.onChange(({ kind, object: pod }) => {
      if (!pod) return;
      const key = `${pod.namespace}/${pod.name}/${pod.uid}`;
      const isDecided = evicted.get(key)?.isDecided ?? false;
      const isGone = kind === 'deleted';
      if (!pod.isEvicted || (isGone && isDecided)) return void evicted.delete(key);
      evicted.set(key, { pod, isGone, isDecided });
      queue.add(key);
    }),
    () => evicted.clear(),
  ];

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const { pod, isDecided } = evicted.get(key) ?? {};
    // The API server sets the condition before it deletes the pod, which can still fail. The deletion is another change.
    if (!pod || isDecided || !(await isDeleted(client, pod, signal))) return Requeue.never;
    const { namespace, nodeName } = pod;
    const { claims, dropped } = await observe(client, pod, clock.now(), signal);
    const [first] = dropped;
    if (first !== undefined) {
      const record = { [droppingAnnotation]: [nodeName, ...dropped].join('/') };
      const isWritten = await annotate(client, claims.get(first), record, signal);
      if (!isWritten) return Requeue.after(0);
      log.info({ namespace, claims: dropped, node: nodeName }, 'gives up the volumes of an evicted pod');
    }
    if (evicted.get(key)?.isGone) evicted.delete(key);
    else evicted.set(key, { pod, isGone: false, isDecided: true });
    return Requeue.never;
  };

  return { name: 'evicted-pods', watch, reconcile, concurrency: 4, leaderOnly: true };
}

/** Orders the release of all claims of an evicted pod. The one with the record comes last, so that the next leader can continue. */
export function droppedVolumes({ client, claims: watched, clock }: ClaimCollaborators): Work {
  const watch: Work['watch'] = (queue) => [
    watched.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && object.onDrain?.isDropping) queue.add(key);
    }),
  ];

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const [namespace = '', own = ''] = key.split('/');
    const claim = await client.get(persistentVolumeClaims, own, { namespace, signal });
    const record = claim?.metadata.annotations?.[droppingAnnotation];
    if (record === undefined) return Requeue.never;
    const [nodeName = '', ...claimNames] = record.split('/');
    const pod = { namespace, uid: '', nodeName, claimNames };
    const { claims, dropped } = await observe(client, pod, clock.now(), signal);
    const order = orderOfDrain('force', nodeName);
    for (const other of dropped) {
      if (other !== own && !(await annotate(client, claims.get(other), order, signal))) return Requeue.after(0);
    }
    const end = { ...(dropped.includes(own) && order), [droppingAnnotation]: null };
    return (await annotate(client, claim, end, signal)) ? Requeue.never : Requeue.after(0);
  };

  return { name: 'dropped-volumes', watch, reconcile, concurrency: 4, leaderOnly: true };
}

async function isDeleted(
  client: Pick<KubeClient, 'list'>,
  { namespace, name, uid }: PodOnNode,
  signal: AbortSignal,
): Promise<boolean> {
  const { items } = await client.list(pods, { namespace, fieldSelector: `metadata.name=${name}`, signal });
  return items.every(({ metadata }) => metadata.uid !== uid || metadata.deletionTimestamp !== undefined);
}

interface Observed {
  /** By name. */
  readonly claims: ReadonlyMap<string, Stored<PersistentVolumeClaim>>;
  /** Those whose volumes are to be given up, and have no order yet. */
  readonly dropped: readonly string[];
}

/** Reads everything from the API server, because the decision gives data up. */
async function observe(
  client: Pick<KubeClient, 'get' | 'list'>,
  pod: DrainingPod,
  nowMs: number,
  signal: AbortSignal,
): Promise<Observed> {
  const { namespace, nodeName } = pod;
  const claims = new Map<string, Stored<PersistentVolumeClaim>>();
  const volumes = new Map<string, VolumeOnDrain>();
  let isVolumeMissing = false; // it moves, or is lost: its policy is unknown
  for (const name of pod.claimNames) {
    const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
    const { volumeName } = (claim && claimOnDrain(claim)) ?? {};
    if (!claim || !volumeName) continue;
    claims.set(name, claim);
    const volume = await client.get(persistentVolumes, volumeName, { signal });
    const known = volume && volumeOnDrain(volume);
    isVolumeMissing ||= !volume;
    if (known) volumes.set(volumeName, known);
  }
  const { items: moves } = await client.list(volumeMoves, { namespace, signal });
  const node = await client.get(nodes, nodeName, { signal });
  const drained = drainedPod(pod, {
    isDraining: node !== undefined && isDraining(node),
    claim: (name) => {
      const claim = claims.get(name);
      return claim && claimOnDrain(claim);
    },
    volume: (name) => volumes.get(name),
    moves,
  });
  const verdict = drained && !isVolumeMissing ? decide(drained, nowMs) : undefined;
  return { claims, dropped: verdict?.kind === 'drop' ? verdict.volumes.map(({ claim }) => claim) : [] };
}

/** Returns false if the claim has changed since it was read: then it has to be read again. */
async function annotate(
  client: Pick<KubeClient, 'patch'>,
  claim: Stored<PersistentVolumeClaim> | undefined,
  annotations: Readonly<Record<string, string | null>>,
  signal: AbortSignal,
): Promise<boolean> {
  if (!claim) return true;
  const { name, namespace, uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion, annotations } };
  try {
    await client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
    return true;
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
    return false;
  }
}
