import type { LogicalVolume } from '../../api/logical-volume.ts';
import { claimName } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import { RateLimit } from '../../base/rate-limit.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Happening, type Reporter, writeEvent } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import { persistentVolumeClaims } from '../../kube/resource.ts';
import { happeningIn } from './happening.ts';

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
  const untold = new Map<string, Happening[]>();

  const watch = (queue: WorkQueue) =>
    volumes.onChange((change) => {
      const claim = change.object.metadata.annotations?.[claimName];
      const happening = claim && happeningIn(change);
      if (!claim || !happening) return;
      untold.set(claim, [...(untold.get(claim) ?? []), happening]);
      queue.add(claim);
    });

  const reconcile = async (claim: string, signal: AbortSignal): Promise<Requeue> => {
    const [namespace = '', name = ''] = claim.split('/');
    for (const happening of untold.get(claim) ?? []) {
      await rate.take(signal);
      // A deleted claim has no uid to look up; the Event is still visible in its namespace.
      const found = await client.get(persistentVolumeClaims, name, { namespace, signal });
      const about = { resource: persistentVolumeClaims, name, namespace, uid: found?.metadata.uid };
      await writeEvent(client, reporter, about, happening, clock.now(), signal);
      const left = (untold.get(claim) ?? []).filter((other) => other !== happening);
      if (left.length > 0) untold.set(claim, left);
      else untold.delete(claim);
    }
    return Requeue.never;
  };

  return { name: 'volume-events', watch, reconcile, concurrency: 4, leaderOnly: true };
}
