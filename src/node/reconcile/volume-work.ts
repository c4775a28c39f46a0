import { isDeepStrictEqual } from 'node:util';
import type { LogicalVolume } from '../../api/logical-volume.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { Pools } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { LogicalVolumeReconciler } from './logical-volume-reconciler.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'onChange'>;
  readonly pools: Pools;
  readonly log: Log;
}

/** Limits concurrent writes to the API server. Pools order their own operations, which run aside. */
const volumesAtOnce = 64;
/** A burst of changes causes one retry. */
const burstMs = 500;

/** The work for this node's LogicalVolumes: different volumes in parallel, each volume step by step. */
export function volumeWork(collaborators: Collaborators): Work {
  const { volumes, pools } = collaborators;
  const reconciler = new LogicalVolumeReconciler(collaborators);
  let seen: unknown;
  const watch = (queue: WorkQueue) => [
    volumes.onChange((change) => {
      if (LogicalVolumeReconciler.needsLook(change)) queue.add(change.key);
    }),
    pools.onChange(() => {
      const refused = reconciler.worthAnotherTry();
      if (refused.length === 0) return;
      // After a failed attempt the pool reads its disks and reports a change; that must not cause a retry.
      const now = stateOf(pools);
      if (!isDeepStrictEqual(now, seen)) for (const name of refused) queue.addAfter(name, burstMs);
      seen = now;
    }),
  ];
  return {
    name: 'logicalvolumes',
    watch,
    reconcile: (name, signal, aside) => reconciler.reconcile(name, signal, aside),
    concurrency: volumesAtOnce,
  };
}

/** What must change before a failed growth or removal can succeed. */
function stateOf(pools: Pools): unknown {
  return pools.all().map((pool) => [pool.name, pool.capacity().freeBytes, pool.list().length]);
}
