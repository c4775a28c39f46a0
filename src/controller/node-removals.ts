import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Informer } from '../kube/informer.ts';
import type { Node } from '../kube/resource.ts';
import type { AnnotatedNode } from './annotated-capacities.ts';
import { LeaderQueue } from './leader-queue.ts';
import type { NodeRemoval } from './node-removal.ts';

interface Collaborators {
  readonly nodes: Pick<Informer<Node, AnnotatedNode>, 'onChange'>;
  readonly removal: Pick<NodeRemoval, 'reconcile'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** Lets Nodes go that are being deleted. */
export function nodeRemovals({ nodes, removal, ...its }: Collaborators): LeaderQueue {
  return new LeaderQueue({
    ...its,
    watch: (add) =>
      nodes.onChange(({ kind, object }) => {
        if (kind !== 'deleted' && object.isLeaving) add(object.name);
      }),
    reconcile: (name, signal) => removal.reconcile(name, signal),
  });
}
