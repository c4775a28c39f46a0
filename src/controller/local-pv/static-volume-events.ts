import type { Clock } from '../../base/clock.ts';
import { InvalidInput } from '../../base/errors.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventContent, Reporter } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type ConfigMap,
  configMaps,
  type PersistentVolume,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import { parseDefaults } from '../../local-pv/defaults.ts';
import { eventWork } from '../events/event-work.ts';
import { eventsOfChange } from './events-of-change.ts';
import { keepsData, type Surroundings } from './next-step.ts';
import type { MaybeStatic } from './static-volumes.ts';

interface Reporting {
  readonly client: Pick<KubeClient, 'create'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

interface Collaborators extends Reporting, Pick<Surroundings, 'defaults' | 'mountBase'> {
  readonly volumes: Pick<Informer<PersistentVolume, MaybeStatic>, 'onChange'>;
}

/** Reports what happens to static volumes as Events on their PersistentVolumes. */
export function staticVolumeEvents({ volumes, defaults, mountBase, ...reporting }: Collaborators): Work {
  const isKept = (volume: Stored<PersistentVolume>) => keepsData(volume, { defaults, mountBase });
  return eventWork({
    ...reporting,
    name: 'static-volume-events',
    watch: (report) => [
      volumes.onChange(({ kind, object: { asStatic: object }, previous }) => {
        if (!object) return;
        const { name, uid } = object.metadata;
        report(`${name}/${uid}`, eventsOfChange({ kind, object, previous: previous?.asStatic }, isKept));
      }),
    ],
    about: async (key) => {
      const [name = '', uid] = key.split('/');
      return { resource: persistentVolumes, name, uid };
    },
  });
}

/** Reports invalid defaults as an Event on their ConfigMap. */
export function defaultsEvents(configMap: Pick<Informer<ConfigMap>, 'get' | 'onChange'>, reporting: Reporting): Work {
  return eventWork({
    ...reporting,
    name: 'static-volume-defaults',
    watch: (report) => [
      configMap.onChange(({ kind, key, object }) => {
        if (kind !== 'deleted') report(key, faultsIn(object));
      }),
    ],
    about: async (key) => {
      const [namespace = '', name = ''] = key.split('/');
      return { resource: configMaps, namespace, name, uid: configMap.get(key)?.metadata.uid };
    },
  });
}

function faultsIn({ data = {} }: ConfigMap): readonly EventContent[] {
  try {
    parseDefaults(data);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    const message = `${error.message}; the last valid ones stay in use`;
    return [{ type: 'Warning', reason: 'InvalidDefaults', action: 'Reading', message }];
  }
}
