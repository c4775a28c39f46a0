import { asOnDrain, onDrain } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventContent, Reporter } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolumeClaim, persistentVolumeClaims } from '../../kube/resource.ts';
import { eventWork } from '../events/event-work.ts';
import type { ClaimOnDrain } from './drained-objects.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'create'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<
    Informer<PersistentVolumeClaim, { readonly onDrain: ClaimOnDrain | undefined }>,
    'get' | 'onChange'
  >;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** Reports a policy for drains that is none when it is set, and not only to the one whose drain is refused. */
export function invalidPolicies({ client, claims, reporter, clock }: Collaborators): Work {
  return eventWork({
    name: 'invalid-policies',
    watch: (report) => [
      claims.onChange(({ kind, key, object: { onDrain }, previous }) => {
        if (kind !== 'deleted') report(key, invalidPolicy(onDrain?.policy, previous?.onDrain?.policy));
      }),
    ],
    about: async (key) => {
      const [namespace = '', name = ''] = key.split('/');
      return { resource: persistentVolumeClaims, namespace, name, uid: claims.get(key)?.onDrain?.uid };
    },
    client,
    reporter,
    clock,
  });
}

export function invalidPolicy(word: string | undefined, previous: string | undefined): readonly EventContent[] {
  if (word === undefined || word === previous || asOnDrain(word)) return [];
  const message = `${onDrain.annotation} is ${JSON.stringify(word)}; use one of ${onDrain.policies.join(', ')}`;
  return [{ type: 'Warning', reason: 'InvalidPolicy', action: 'Draining', message }];
}
