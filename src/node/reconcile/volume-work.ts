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
  /** The LogicalVolumes of this node, and no others. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'onChange'>;
  readonly pools: Pools;
  readonly log: Log;
}

/** So many write to the API server at once. Pools put in order what must be, and what they do is waited for aside. */
const volumesAtOnce = 64;
/** A burst of changes is one more try. */
const burstMs = 500;

/** The work that this node's LogicalVolumes ask for: different volumes at once, one volume step by step. */
export function volumeWork(collaborators: Collaborators): Work {
  const { volumes, pools } = collaborators;
  const reconciler = new LogicalVolumeReconciler(collaborators);
  let seen: unknown;
  const watch = (queue: WorkQueue) => {
    const stops = [
      volumes.onChange((change) => {
        if (LogicalVolumeReconciler.needsLook(change)) queue.add(change.key);
      }),
      pools.onChange(() => {
        const refused = reconciler.worthAnotherTry();
        if (refused.length === 0) return;
        // A try that fails has its pool look at the disks, which tells of that: no reason to try again.
        const now = figuresOf(pools);
        if (!isDeepStrictEqual(now, seen)) for (const name of refused) queue.addAfter(name, burstMs);
        seen = now;
      }),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  };
  return {
    name: 'logicalvolumes',
    watch,
    reconcile: (name, signal, aside) => reconciler.reconcile(name, signal, aside),
    concurrency: volumesAtOnce,
  };
}

/** What must be different before something may fit, or go, that did not. */
function figuresOf(pools: Pools): unknown {
  return pools.all().map((pool) => [pool.name, pool.capacity().freeBytes, pool.list().length]);
}
