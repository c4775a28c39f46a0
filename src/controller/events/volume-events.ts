import type { LogicalVolume } from '../../api/logical-volume.ts';
import { claimKey } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import { RateLimit } from '../../base/rate-limit.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type EventContent, type Reporter, writeEvent } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import { persistentVolumeClaims } from '../../kube/resource.ts';
import { eventsOfChange } from './events-of-change.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'create' | 'get'>;
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'onChange'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** Events are optional: a burst of volumes must not keep the API server busy with them. */
const writes = { burst: 50, perSecond: 10 };

/** Reports what happens to volumes as Events on their claims, where users look first. */
export function volumeEvents({ client, volumes, reporter, clock }: Collaborators): Work {
  const rate = new RateLimit({ clock, ...writes });
  /** Events to write, by claim. */
  const pending = new Map<string, EventContent[]>();

  const watch = (queue: WorkQueue) => [
    volumes.onChange((change) => {
      const claim = change.object.metadata.annotations?.[claimKey];
      const events = claim ? eventsOfChange(change) : [];
      if (!claim || events.length === 0) return;
      pending.set(claim, [...(pending.get(claim) ?? []), ...events]);
      queue.add(claim);
    }),
  ];

  const reconcile = async (claim: string, signal: AbortSignal): Promise<Requeue> => {
    const [namespace = '', name = ''] = claim.split('/');
    for (const event of pending.get(claim) ?? []) {
      await rate.take(signal);
      // A deleted claim has no uid to look up; the Event is still visible in its namespace.
      const found = await client.get(persistentVolumeClaims, name, { namespace, signal });
      const about = { resource: persistentVolumeClaims, name, namespace, uid: found?.metadata.uid };
      await writeEvent(client, reporter, about, event, clock.now(), signal);
      const left = (pending.get(claim) ?? []).filter((other) => other !== event);
      if (left.length > 0) pending.set(claim, left);
      else pending.delete(claim);
    }
    return Requeue.never;
  };

  return { name: 'volume-events', watch, reconcile, concurrency: 4, leaderOnly: true };
}
