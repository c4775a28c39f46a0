import { hasLeft } from '../../api/leave.ts';
import { asOnDrain, drainedFromAnnotation, leave, tombstone } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type Node, type PersistentVolumeClaim, persistentVolumeClaims } from '../../kube/resource.ts';
import { drainCare } from './decide.ts';
import type { ClaimOnDrain } from './drained-objects.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'get' | 'patch'>;
  readonly nodes: Pick<Informer<Node, { readonly name: string; readonly isDraining: boolean }>, 'get' | 'onChange'>;
  readonly claims: Pick<
    Informer<PersistentVolumeClaim, { readonly onDrain: ClaimOnDrain | undefined }>,
    'get' | 'onChange'
  >;
  readonly log: Log;
}

/**
 * Withdraws the requests to operators when their node is no longer drained, or when a person has chosen another policy. After
 * an operator's answer there is no way back: its data has left.
 */
export function endedDrains({ client, nodes, claims, log }: Collaborators): Work {
  /** By claim, of those that a drain has asked to leave. */
  const asked = new Map<string, string>();
  const watch: Work['watch'] = (queue) => [
    claims.onChange(({ kind, key, object }) => {
      const node = kind === 'deleted' ? undefined : object.onDrain?.drainedFrom;
      if (node === undefined) return void asked.delete(key);
      asked.set(key, node);
      queue.add(key);
    }),
    nodes.onChange(({ kind, object }) => {
      if (kind !== 'deleted' && object.isDraining) return;
      for (const [claim, node] of asked) if (node === object.name) queue.add(claim);
    }),
  ];

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const known = claims.get(key)?.onDrain;
    if (!known || !isWithdrawn(known, nodes.get(known.drainedFrom ?? '')?.isDraining)) return Requeue.never;
    const [namespace = '', name = ''] = key.split('/');
    const claim = await client.get(persistentVolumeClaims, name, { namespace, signal }); // its operator may just have answered
    const { annotations = {}, resourceVersion } = claim?.metadata ?? {};
    if (annotations[drainedFromAnnotation] !== known.drainedFrom || hasLeft(annotations)) return Requeue.never;
    const [ours] = tombstone.annotations;
    const removed = [ours, drainedFromAnnotation, leave.request, leave.acknowledgement, leave.message];
    const body = { metadata: { resourceVersion, annotations: Object.fromEntries(removed.map((key) => [key, null])) } };
    try {
      await client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
      log.info({ claim: key, node: known.drainedFrom }, 'withdrew a request to leave: the drain is over');
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return Requeue.never;
  };

  return { name: 'ended-drains', watch, reconcile, concurrency: 1, leaderOnly: true };
}

/** A Node that is gone decides nothing here: what becomes of its claims is a policy of its own. */
export function isWithdrawn(claim: ClaimOnDrain, isNodeDraining: boolean | undefined): boolean {
  if (claim.drainedFrom === undefined || claim.tombstone === 'force' || claim.hasLeft) return false;
  const policy = claim.policy === undefined ? undefined : asOnDrain(claim.policy);
  const isAsked = claim.policy === undefined || (policy && drainCare[policy].graceful === 'operator');
  return !isAsked || isNodeDraining === false;
}
