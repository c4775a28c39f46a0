import type { Clock } from '../../base/clock.ts';
import { InvalidInput } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { type ConfigMap, configMaps } from '../../kube/resource.ts';
import { noDefaults } from '../../local-pv/defaults.ts';
import { LiveDefaults } from '../../local-pv/live-defaults.ts';
import type { DefaultsSource } from './static-volume-work.ts';

interface Options {
  /** Empty for no defaults. */
  readonly name: string;
  readonly namespace: string;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
}

/** The defaults in the ConfigMap with this name; `watch` is undefined if there is none. */
export function defaultsIn(options: Options): DefaultsSource & { readonly watch: Informer<ConfigMap> | undefined } {
  const { name, namespace, client, clock, log } = options;
  if (name === '') return { watch: undefined, synced: true, get: () => noDefaults, onChange: () => () => undefined };
  if (namespace === '')
    throw new InvalidInput('--local-pv-defaults needs the namespace of the agent; set POD_NAMESPACE');
  const fieldSelector = `metadata.name=${name}`;
  const watch = new Informer({ client, resource: configMaps, namespace, fieldSelector, clock, log });
  const live = new LiveDefaults(name, watch);
  return {
    watch,
    get synced() {
      return watch.synced;
    },
    get: () => live.get(),
    onChange(listener) {
      watch.whenSynced().then(listener, () => undefined); // rejected if the process stops first
      return watch.onChange(listener);
    },
  };
}
