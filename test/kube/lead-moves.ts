import type { TestContext } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { annotatedNode } from '../../src/controller/capacity/annotated-capacities.ts';
import { isHeldByMove } from '../../src/controller/moves/held-nodes.ts';
import { movesOfVolumes } from '../../src/controller/moves/volume-moves.ts';
import { NodeRemoval, nodeRemovals } from '../../src/controller/node-removal/node-removal.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import { nodes, persistentVolumeClaims, persistentVolumes } from '../../src/kube/resource.ts';
import { claimUsers, leadWith, reporting } from './removed-nodes.ts';

/** The controller's work for moves. It writes as `writer`, and watches as `watcher`, with watches of its own. */
export function leadMoves(t: TestContext, writer: KubeClient, watcher = writer): () => Promise<void> {
  const common = { client: watcher, clock: systemClock, log: silentLog };
  const { users, ...podWatches } = claimUsers(watcher);
  const watches = {
    moves: new Informer({ ...common, resource: volumeMoves }),
    claims: new Informer({ ...common, resource: persistentVolumeClaims }),
    persistentVolumes: new Informer({ ...common, resource: persistentVolumes }),
    volumes: new Informer({ ...common, resource: logicalVolumes }),
    nodes: new Informer({ ...common, resource: nodes, project: annotatedNode }),
    ...podWatches,
  };
  const removal = new NodeRemoval({ ...reporting(writer), keepObjects: false });
  const isHeld = (name: string) => watches.moves.list().some((move) => isHeldByMove(name, move));
  return leadWith(
    t,
    watches,
    movesOfVolumes({ ...reporting(writer), ...watches, users }),
    nodeRemovals({ nodes: watches.nodes, removal, isHeld }),
  );
}
