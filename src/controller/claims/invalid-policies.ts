import { invalidPolicies, invalidPolicyText } from '../../api/policies.ts';
import type { Clock } from '../../base/clock.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventContent, Reporter } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolumeClaim, persistentVolumeClaims, type Stored } from '../../kube/resource.ts';
import { eventWork } from '../events/event-work.ts';

/** What is wrong with the policies of a claim. */
export interface InvalidPolicies {
  readonly uid: string;
  readonly messages: readonly string[];
}

/** Undefined for most claims, to save memory. */
export function invalidPoliciesOf({ metadata }: Stored<PersistentVolumeClaim>): InvalidPolicies | undefined {
  const messages = invalidPolicies(metadata.annotations).map(invalidPolicyText);
  return messages.length === 0 ? undefined : { uid: metadata.uid, messages };
}

interface Collaborators {
  readonly client: Pick<KubeClient, 'create'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<
    Informer<PersistentVolumeClaim, { readonly invalid: InvalidPolicies | undefined }>,
    'get' | 'onChange'
  >;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** Reports an invalid policy when it is set, because it would only be noticed when it matters. */
export function invalidPolicyEvents({ client, claims, reporter, clock }: Collaborators): Work {
  return eventWork({
    name: 'invalid-policies',
    watch: (report) => [
      claims.onChange(({ kind, key, object, previous }) => {
        if (kind !== 'deleted') report(key, newEvents(object.invalid, previous?.invalid));
      }),
    ],
    about: async (key) => {
      const [namespace = '', name = ''] = key.split('/');
      return { resource: persistentVolumeClaims, namespace, name, uid: claims.get(key)?.invalid?.uid };
    },
    client,
    reporter,
    clock,
  });
}

/** Not for each change of something else. */
export function newEvents(now?: InvalidPolicies, previous?: InvalidPolicies): readonly EventContent[] {
  const isNew = (message: string) => !previous?.messages.includes(message);
  return (now?.messages ?? [])
    .filter(isNew)
    .map((message) => ({ type: 'Warning', reason: 'InvalidPolicy', action: 'ReadingPolicies', message }));
}
