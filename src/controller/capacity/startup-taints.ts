import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import { parseQuantity } from '../../base/quantity.ts';
import type { Work } from '../../base/work.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type CsiStorageCapacity, type Node, nodes as nodeResource } from '../../kube/resource.ts';
import type { AnnotatedNode } from './annotated-capacities.ts';
import type { PublishedCapacity } from './plan.ts';

interface Collaborators {
  /** The key of the taint. */
  readonly taint: string;
  readonly client: Pick<KubeClient, 'get' | 'patch'>;
  readonly nodes: Pick<Informer<Node, AnnotatedNode>, 'get' | 'onChange'>;
  readonly published: Pick<Informer<CsiStorageCapacity, PublishedCapacity>, 'list' | 'onChange'>;
  readonly log: Log;
}

/**
 * Removes the taint that an autoscaler's new nodes start with, once the scheduler knows their free space. Until then, the
 * autoscaler must not take the node for one that does not help the pods that wait, and add another.
 */
export function startupTaints({ taint, client, nodes, published, log }: Collaborators): Work {
  const hasTaint = (name: string) => nodes.get(name)?.taints.includes(taint) ?? false;
  const isPublished = (name: string) =>
    published.list().some(({ nodeName, capacity }) => nodeName === name && parseQuantity(capacity || '0') > 0n);

  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    if (!hasTaint(name) || !isPublished(name)) return Requeue.never;
    const node = await client.get(nodeResource, name, { signal });
    const { taints = [] } = node?.spec ?? {};
    const kept = taints.filter(({ key }) => key !== taint);
    if (!node || kept.length === taints.length) return Requeue.never;
    const { resourceVersion } = node.metadata; // so that no taint is lost that somebody adds now
    const body = { metadata: { resourceVersion }, spec: { taints: kept } };
    try {
      await client.patch(nodeResource, name, { type: 'merge', body }, { signal });
      log.info({ node: name, taint }, 'removed the startup taint: the scheduler knows the free space of the node');
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error; // after a conflict, the watch adds the node again
    }
    return Requeue.never;
  };

  return {
    name: 'startup-taints',
    watch: (queue) => [
      nodes.onChange(({ kind, key }) => {
        if (kind !== 'deleted' && hasTaint(key)) queue.add(key);
      }),
      published.onChange(({ object }) => {
        if (hasTaint(object.nodeName)) queue.add(object.nodeName);
      }),
    ],
    reconcile,
    concurrency: 4,
    leaderOnly: true,
  };
}
