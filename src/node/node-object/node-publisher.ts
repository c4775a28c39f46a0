import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { Pools } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type Node, nodes } from '../../kube/resource.ts';
import { changesToNode, type NodeFacts } from './node-facts.ts';

/** A burst of changes causes one write: the scheduler needs the capacity soon, not at once. */
const burstMs = 200;

interface Collaborators {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, 'patch'>;
  /** This node's own Node object. */
  readonly node: Pick<Informer<Node, NodeFacts>, 'get' | 'onChange'>;
  readonly pools: Pick<Pools, 'onChange'>;
  /** The current values of our annotations of the Node. */
  readonly wanted: () => ReadonlyMap<string, string>;
  readonly log: Log;
}

/**
 * Keeps this node's Node object up to date: capacity, features, and the finalizer that lets the controller see the Node's
 * removal. Runs after each change of a pool, and after changes by others.
 */
export function nodePublisher({ nodeName, client, node, pools, wanted, log }: Collaborators): Work {
  const watch = (queue: WorkQueue) => [
    node.onChange(() => queue.add(nodeName)),
    pools.onChange(() => queue.addAfter(nodeName, burstMs)),
  ];
  const reconcile = async (_: string, signal: AbortSignal): Promise<Requeue> => {
    const current = node.get(nodeName);
    if (!current) return Requeue.never; // not registered yet, or removed: its creation triggers the next run
    const metadata = changesToNode(current, wanted());
    if (!metadata) return Requeue.never;
    await client.patch(nodes, nodeName, { type: 'merge', body: { metadata } }, { signal });
    log.debug({ metadata }, 'node updated');
    return Requeue.never;
  };
  return { name: 'node', watch, reconcile, concurrency: 1 };
}
