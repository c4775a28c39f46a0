import type { Work } from '../../base/work.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Node } from '../../kube/resource.ts';
import type { AnnotatedNode } from '../capacity/annotated-capacities.ts';
import type { NodeRemoval } from './node-removal.ts';

interface Collaborators {
  readonly nodes: Pick<Informer<Node, AnnotatedNode>, 'onChange'>;
  readonly removal: Pick<NodeRemoval, 'reconcile'>;
}

/** Cleans up after Nodes that are being deleted. */
export function nodeRemovals({ nodes, removal }: Collaborators): Work {
  return {
    name: 'node-removals',
    watch: (queue) =>
      nodes.onChange(({ kind, object }) => {
        if (kind !== 'deleted' && object.isLeaving) queue.add(object.name);
      }),
    reconcile: (name, signal) => removal.reconcile(name, signal),
    concurrency: 1,
    leaderOnly: true,
  };
}
