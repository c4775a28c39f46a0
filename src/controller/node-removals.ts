import { once } from 'node:events';
import type { Clock } from '../base/clock.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import type { Informer } from '../kube/informer.ts';
import type { Node } from '../kube/resource.ts';
import type { AnnotatedNode } from './annotated-capacities.ts';
import type { NodeRemoval } from './node-removal.ts';

interface Collaborators {
  readonly nodes: Pick<Informer<Node, AnnotatedNode>, 'onChange'>;
  readonly removal: Pick<NodeRemoval, 'reconcile'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** Lets Nodes go that are being deleted, while it runs: to be run by one replica at a time. */
export class NodeRemovals {
  readonly #collaborators: Collaborators;
  #queue: KeyedQueue | undefined;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
  }

  get depth(): KeyedQueue['depth'] {
    return this.#queue?.depth ?? { waiting: 0, running: 0, failing: 0 };
  }

  /** Until the signal aborts. What is under way then is called off: whoever runs next begins it anew. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { nodes, removal, clock, log, random } = this.#collaborators;
    const reconcile = (name: string, itsSignal: AbortSignal) => removal.reconcile(name, itsSignal);
    const queue = new KeyedQueue({ reconcile, concurrency: 1, clock, log, random });
    this.#queue = queue;
    const stopListening = nodes.onChange(({ kind, object }) => {
      if (kind !== 'deleted' && object.isLeaving) queue.add(object.name);
    });
    await once(signal, 'abort');
    stopListening();
    await queue.stop(0);
  }
}
