import type { LogicalVolume } from '../../api/logical-volume.ts';
import { claimKey } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Reporter } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import { persistentVolumeClaims } from '../../kube/resource.ts';
import { eventWork } from './event-work.ts';
import { eventsOfChange } from './events-of-change.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'create' | 'get'>;
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'onChange'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** Reports what happens to volumes as Events on their claims, where users look first. */
export function volumeEvents({ client, volumes, reporter, clock }: Collaborators): Work {
  return eventWork({
    name: 'volume-events',
    watch: (report) => [
      volumes.onChange((change) => {
        const claim = change.object.metadata.annotations?.[claimKey];
        if (claim) report(claim, eventsOfChange(change));
      }),
    ],
    about: async (claim, signal) => {
      const [namespace = '', name = ''] = claim.split('/');
      // A deleted claim has no uid to look up; the Event is still visible in its namespace.
      const found = await client.get(persistentVolumeClaims, name, { namespace, signal });
      return { resource: persistentVolumeClaims, name, namespace, uid: found?.metadata.uid };
    },
    client,
    reporter,
    clock,
  });
}
