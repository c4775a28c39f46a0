import { driverName } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isConflict } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Reporter, writeEvent } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  claimNamesOf,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  pods,
  type StatefulSet,
  type StorageClass,
  type Stored,
  statefulSets,
  storageClasses,
} from '../../kube/resource.ts';

import type { MaybeStatic } from '../local-pv/static-volumes.ts';

/** Selects pods that wait to be scheduled, which are few. */
export const unscheduled = 'status.phase=Pending,spec.nodeName=';

/** A pod with claims that waits to be scheduled. */
export interface WaitingPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The StatefulSet that it is of; nobody would re-create the claims of other pods. */
  readonly set: { readonly name: string; readonly uid: string } | undefined;
  readonly claimNames: readonly string[];
}

/** Undefined for pods without claims. */
export function waitingPod(pod: Stored<Pod>): WaitingPod | undefined {
  const { namespace = '', name, uid, resourceVersion, ownerReferences = [], deletionTimestamp } = pod.metadata;
  const owner = ownerReferences.find(({ controller }) => controller);
  const isOfSet = owner?.kind === statefulSets.kind && owner.apiVersion.startsWith(`${statefulSets.group}/`);
  const claimNames = claimNamesOf(pod);
  if (claimNames.length === 0 || deletionTimestamp !== undefined || pod.spec?.nodeName) return undefined;
  const set = isOfSet ? { name: owner.name, uid: owner.uid } : undefined;
  return { namespace, name, uid, resourceVersion, set, claimNames };
}

interface Collaborators {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'delete'>;
  /** Those that wait to be scheduled. */
  readonly pods: Pick<Informer<Pod, WaitingPod | undefined>, 'get' | 'list' | 'onChange'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, object>, 'get' | 'onChange'>;
  readonly persistentVolumes: Pick<Informer<PersistentVolume, MaybeStatic>, 'list'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Replaces pods of StatefulSets that wait for a claim that does not exist. A StatefulSet may re-create its pod while the
 * claim of a removed node still exists, and then does not notice that the claim is deleted. Without the pod, it creates
 * both. Only pods that never ran are deleted, and only for claims that a template of their set would create in a
 * StorageClass of ours, or of static volumes of ours.
 */
export function strandedPods(collaborators: Collaborators): Work {
  const { client, pods: waiting, claims, persistentVolumes, reporter, clock, log } = collaborators;
  const watch: Work['watch'] = (queue) => [
    waiting.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && object?.set) queue.add(key);
    }),
    claims.onChange(({ kind, key }) => {
      if (kind !== 'deleted') return;
      const isUser = (pod: WaitingPod | undefined) =>
        pod?.claimNames.some((name) => `${pod.namespace}/${name}` === key);
      for (const pod of waiting.list().filter(isUser)) if (pod) queue.add(`${pod.namespace}/${pod.name}`);
    }),
  ];

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const pod = waiting.get(key);
    if (!pod?.set) return Requeue.never;
    const { namespace, name, uid, resourceVersion } = pod;
    const missing = await missingClaim(pod, signal);
    if (!missing) return Requeue.never;
    const message = `deleting this pod because its claim ${missing} does not exist; its StatefulSet re-creates both`;
    const event = { type: 'Warning', reason: 'ClaimMissing', action: 'Replacing', message } as const;
    await writeEvent(client, reporter, { resource: pods, namespace, name, uid }, event, clock.now(), signal);
    try {
      // Fails if the pod was scheduled or changed meanwhile; the watch reports that.
      await client.delete(pods, name, { namespace, preconditions: { uid, resourceVersion }, signal });
      log.info({ namespace, name, claim: missing }, 'deleted a pod whose claim does not exist');
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
    return Requeue.never;
  };

  /** The name of a claim of ours that the pod needs, that does not exist, and that its StatefulSet would create. */
  const missingClaim = async (pod: WaitingPod, signal: AbortSignal): Promise<string | undefined> => {
    const { namespace, set, claimNames } = pod;
    if (!set) return undefined;
    const unknown = claimNames.filter((name) => claims.get(`${namespace}/${name}`) === undefined);
    for (const name of unknown) {
      // The watch of claims may be behind the watch of pods.
      if (await client.get(persistentVolumeClaims, name, { namespace, signal })) continue;
      const owner = await client.get(statefulSets, set.name, { namespace, signal });
      if (!owner || owner.metadata.uid !== set.uid || owner.metadata.deletionTimestamp) return undefined;
      const { items: classes } = await client.list(storageClasses, { signal });
      if (createsOurClaim(owner, pod.name, name, classes, namesOfStaticClasses())) return name;
    }
    return undefined;
  };

  const namesOfStaticClasses = () =>
    new Set(persistentVolumes.list().flatMap(({ asStatic }) => asStatic?.spec?.storageClassName ?? []));

  return { name: 'stranded-pods', watch, reconcile, concurrency: 1, leaderOnly: true };
}

/** Whether the StatefulSet has a template for this claim of its pod, in a StorageClass of ours: by its driver or by its name. */
export function createsOurClaim(
  { spec }: StatefulSet,
  podName: string,
  claim: string,
  classes: readonly StorageClass[],
  ourNames: ReadonlySet<string>,
): boolean {
  const template = spec?.volumeClaimTemplates?.find(({ metadata }) => `${metadata?.name}-${podName}` === claim);
  if (!template) return false;
  const isDefault = ({ metadata }: StorageClass) =>
    metadata?.annotations?.['storageclass.kubernetes.io/is-default-class'] === 'true';
  const wanted = template.spec?.storageClassName;
  const chosen = classes.filter((one) => (wanted === undefined ? isDefault(one) : one.metadata?.name === wanted));
  const isOurs = ({ metadata, provisioner }: StorageClass) =>
    provisioner === driverName || ourNames.has(metadata?.name ?? '');
  return chosen.length > 0 && chosen.every(isOurs);
}
