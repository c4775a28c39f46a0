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

/** Longer than anybody who has asked for a volume waits before asking again, if ever. */
const patienceMs = 10 * 60_000;

/**
 * Deletes LogicalVolumes that their node has refused to make and that nobody waits for.
 *
 * Whoever asks for a volume hears of the refusal and deletes the object. But a call may end before its node answers, and
 * the claim be deleted before the call is repeated. There is no volume behind such an object; should somebody ask for it
 * after all, it is made anew.
 */
export function refusedVolumes({ client, volumes, clock, log }: Collaborators): Work {
  const watch: Work['watch'] = (queue) =>
    volumes.onChange(({ kind, object }) => {
      if (kind !== 'deleted' && isRefused(object)) queue.add(object.metadata.name);
    });
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
        'deleted, as its node has refused it and nobody asks again',
      );
    } catch (error) {
      if (!isConflict(error)) throw error; // it has changed since: the watch tells
    }
    return Requeue.never;
  };
  return { name: 'refused-volumes', watch, reconcile, concurrency: 1, leaderOnly: true };
}

function isRefused(volume: StoredLogicalVolume): boolean {
  return failureOf(volume) !== undefined && !deleting(volume);
}
