import { capacityAnnotationPrefix, ioLimitsAnnotation, nodeFinalizer } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { Pools } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type Node, nodes, type Stored } from '../../kube/resource.ts';

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

/** The cached part of this node's Node object, which is large. */
export interface NodeFacts {
  readonly uid: string;
  /** Only those that Moorage sets. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly deleting: boolean;
  readonly resourceVersion: string;
}

export function nodeFactsOf({ metadata }: Stored<Node>): NodeFacts {
  const { uid, annotations = {}, finalizers = [], deletionTimestamp, resourceVersion } = metadata;
  return {
    uid,
    annotations: Object.fromEntries(Object.entries(annotations).filter(([key]) => isOurs(key))),
    finalizers,
    deleting: deletionTimestamp !== undefined,
    resourceVersion,
  };
}

/** The merge patch for the Node's metadata; undefined if it is up to date. */
export function changesToNode(current: NodeFacts, wanted: ReadonlyMap<string, string>): object | undefined {
  const annotations: Record<string, string | null> = {};
  for (const [key, value] of wanted) if (current.annotations[key] !== value) annotations[key] = value;
  for (const key of Object.keys(current.annotations)) if (!wanted.has(key)) annotations[key] = null;
  const { finalizers, resourceVersion, deleting } = current;
  // Kubernetes does not allow new finalizers on a Node that is being deleted.
  const isUnprotected = !deleting && !finalizers.includes(nodeFinalizer);
  if (Object.keys(annotations).length === 0 && !isUnprotected) return undefined;
  return {
    annotations,
    // The patch replaces the whole list, so it must fail if the list changed meanwhile.
    ...(isUnprotected && { finalizers: [...finalizers, nodeFinalizer], resourceVersion }),
  };
}

function isOurs(annotation: string): boolean {
  return annotation.startsWith(capacityAnnotationPrefix) || annotation === ioLimitsAnnotation;
}
