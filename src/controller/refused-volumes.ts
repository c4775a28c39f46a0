import {
  deleting,
  failureOf,
  type LogicalVolume,
  logicalVolumes,
  type StoredLogicalVolume,
} from '../api/logical-volume.ts';
import type { Clock } from '../base/clock.ts';
import { Requeue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import type { Work } from '../base/work.ts';
import { isConflict } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'delete'>;
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'onChange'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Longer than any caller waits before it retries. */
const patienceMs = 10 * 60_000;

/**
 * Deletes LogicalVolumes that their node refused to create and that no caller waits for.
 *
 * Normally the caller receives the refusal and deletes the object. But a call may end before its node answers, and the
 * claim may be deleted before the call is retried. Such an object has no volume. A later request creates it again.
 */
export function refusedVolumes({ client, volumes, clock, log }: Collaborators): Work {
  const watch: Work['watch'] = (queue) => [
    volumes.onChange(({ kind, object }) => {
      if (kind !== 'deleted' && isRefused(object)) queue.add(object.metadata.name);
    }),
  ];
  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    const volume = volumes.get(name);
    if (!volume || !isRefused(volume)) return Requeue.never;
    const { uid, resourceVersion, creationTimestamp } = volume.metadata;
    const waitMs = Date.parse(creationTimestamp) + patienceMs - clock.now();
    if (waitMs > 0) return Requeue.after(waitMs);
    try {
      await client.delete(logicalVolumes, name, { preconditions: { uid, resourceVersion }, signal });
      log.info(
        { name, refusal: failureOf(volume)?.message },
        'deleted because its node refused it and no caller retries',
      );
    } catch (error) {
      if (!isConflict(error)) throw error; // it has changed since; the watch will report it
    }
    return Requeue.never;
  };
  return { name: 'refused-volumes', watch, reconcile, concurrency: 1, leaderOnly: true };
}

function isRefused(volume: StoredLogicalVolume): boolean {
  return failureOf(volume) !== undefined && !deleting(volume);
}
