import type { Clock } from '../base/clock.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import { Requeue } from '../base/requeue.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import { type Node, nodes } from '../kube/resource.ts';
import type { Pools } from '../storage/pools.ts';
import { changesToNode, type NodeFacts } from './node-facts.ts';

/** A burst of volumes is one write: the scheduler needs to know soon, not at once. */
const burstMs = 200;

interface Collaborators {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, 'patch'>;
  /** This node's own Node object. */
  readonly node: Pick<Informer<Node, NodeFacts>, 'get' | 'onChange'>;
  readonly pools: Pick<Pools, 'onChange'>;
  /** What our annotations of the Node should be now. */
  readonly wanted: () => ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/**
 * Keeps what this node says of itself on its Node true: capacity, abilities, and the finalizer by which the controller
 * learns of the Node's removal. After each change of a pool, and when somebody else has changed it.
 */
export class NodePublisher {
  readonly queue: KeyedQueue;
  readonly #nodeName: string;
  readonly #collaborators: Collaborators;
  readonly #stopListening: readonly (() => void)[];

  constructor(collaborators: Collaborators) {
    const { nodeName, node, pools, clock, log, random } = collaborators;
    this.#nodeName = nodeName;
    this.#collaborators = collaborators;
    this.queue = new KeyedQueue({
      reconcile: (_, signal) => this.#publish(signal),
      concurrency: 1,
      clock,
      log,
      random,
    });
    this.#stopListening = [
      node.onChange(() => this.queue.add(nodeName)),
      pools.onChange(() => this.queue.addAfter(nodeName, burstMs)),
    ];
  }

  async stop(graceMs: number): Promise<void> {
    for (const stop of this.#stopListening) stop();
    await this.queue.stop(graceMs);
  }

  async #publish(signal: AbortSignal): Promise<Requeue> {
    const { node, client, wanted, log } = this.#collaborators;
    const current = node.get(this.#nodeName);
    if (!current) return Requeue.never; // not registered yet, or removed: its next appearance wakes us
    const metadata = changesToNode(current, wanted());
    if (!metadata) return Requeue.never;
    await client.patch(nodes, this.#nodeName, { type: 'merge', body: { metadata } }, { signal });
    log.debug({ metadata }, 'node updated');
    return Requeue.never;
  }
}
