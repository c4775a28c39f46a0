import type { Clock } from '../base/clock.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import type { LogicalVolume } from '../logical-volume/logical-volume.ts';
import type { Pools } from '../storage/pools.ts';
import { LogicalVolumeReconciler } from './logical-volume-reconciler.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The LogicalVolumes of this node, and no others. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'onChange'>;
  readonly pools: Pools;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** Many, as pools themselves put in order what must be; a removal whose data is destroyed first can take hours. */
const volumesAtOnce = 64;
/** A burst of changes is one more try. */
const burstMs = 500;

/** The work that this node's LogicalVolumes ask for: different volumes at once, one volume step by step. */
export function volumeWork(collaborators: Collaborators): KeyedQueue {
  const { volumes, pools, clock, log, random } = collaborators;
  const reconciler = new LogicalVolumeReconciler(collaborators);
  const queue = new KeyedQueue({
    reconcile: (name, signal) => reconciler.reconcile(name, signal),
    concurrency: volumesAtOnce,
    clock,
    log,
    random,
  });
  volumes.onChange((change) => {
    if (LogicalVolumeReconciler.needsLook(change)) queue.add(change.key);
  });
  pools.onChange(() => {
    for (const name of reconciler.worthAnotherTry()) queue.addAfter(name, burstMs);
  });
  return queue;
}
