import type { Clock } from '../base/clock.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import { Requeue } from '../base/requeue.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import { type Node, nodes, type Stored } from '../kube/resource.ts';
import { capacityAnnotationPrefix } from '../names.ts';
import type { Pools } from '../storage/pools.ts';
import { annotationChanges } from './capacity-annotations.ts';

/** A burst of volumes is one write: the scheduler needs to know soon, not at once. */
const burstMs = 200;

/** The capacity annotations of a Node, by name; a Node is large, and the rest of it is nobody's business here. */
export type CapacityAnnotations = Readonly<Record<string, string>>;

export function capacityAnnotationsOf({ metadata }: Stored<Node>): CapacityAnnotations {
  const ours = Object.entries(metadata.annotations ?? {}).filter(([key]) => key.startsWith(capacityAnnotationPrefix));
  return Object.fromEntries(ours);
}

interface Collaborators {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, 'patch'>;
  /** This node's own Node object. */
  readonly node: Pick<Informer<Node, CapacityAnnotations>, 'get' | 'onChange'>;
  readonly pools: Pick<Pools, 'onChange'>;
  readonly wanted: () => ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** Keeps the capacity annotations of this node true: after each change of a pool, and when somebody else changed them. */
export class CapacityPublisher {
  readonly #queue: KeyedQueue;
  readonly #nodeName: string;
  readonly #collaborators: Collaborators;
  readonly #stopListening: readonly (() => void)[];

  constructor(collaborators: Collaborators) {
    const { nodeName, node, pools, clock, log, random } = collaborators;
    this.#nodeName = nodeName;
    this.#collaborators = collaborators;
    this.#queue = new KeyedQueue({
      reconcile: (_, signal) => this.#publish(signal),
      concurrency: 1,
      clock,
      log,
      random,
    });
    this.#stopListening = [
      node.onChange(() => this.#queue.add(nodeName)),
      pools.onChange(() => this.#queue.addAfter(nodeName, burstMs)),
    ];
  }

  async stop(graceMs: number): Promise<void> {
    for (const stop of this.#stopListening) stop();
    await this.#queue.stop(graceMs);
  }

  async #publish(signal: AbortSignal): Promise<Requeue> {
    const { node, client, wanted, log } = this.#collaborators;
    const current = node.get(this.#nodeName);
    if (!current) return Requeue.never; // not registered yet, or removed: its next appearance wakes us
    const annotations = annotationChanges(current, wanted());
    if (Object.keys(annotations).length === 0) return Requeue.never;
    await client.patch(nodes, this.#nodeName, { type: 'merge', body: { metadata: { annotations } } }, { signal });
    log.debug({ annotations }, 'capacity published');
    return Requeue.never;
  }
}
