import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Work } from '../../base/work.ts';
import { sidecarsForLimits } from '../../csi/io-limits.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type EventContent, type Reporter, writeEvent } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  type Stored,
} from '../../kube/resource.ts';

/** A VolumeAttributesClass that a claim names. */
export interface NamedClass {
  readonly name: string;
  readonly claimUid: string;
  /** The claim's PersistentVolume, if it does not have the class and csi-resizer does not work on it either. */
  readonly missingOn: string | undefined;
}

/** Undefined for most claims, to save memory. */
export function namedClass({ metadata, spec, status }: Stored<PersistentVolumeClaim>): NamedClass | undefined {
  const name = spec?.volumeAttributesClassName;
  if (!name) return undefined;
  const { phase, currentVolumeAttributesClassName, modifyVolumeStatus } = status ?? {};
  const isMissing = phase === 'Bound' && currentVolumeAttributesClassName !== name && !modifyVolumeStatus;
  return { name, claimUid: metadata.uid, missingOn: isMissing ? spec.volumeName : undefined };
}

interface Collaborators {
  readonly client: Pick<KubeClient, 'create'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<
    Informer<PersistentVolumeClaim, { readonly named: NamedClass | undefined }>,
    'get' | 'onChange'
  >;
  /** Those of our driver have a state. */
  readonly persistentVolumes: Pick<Informer<PersistentVolume, { readonly state?: object }>, 'get'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** A working csi-resizer begins at once, or after another replica has become its leader. */
const patienceMs = 30_000;

/**
 * Reports claims that name a VolumeAttributesClass on which csi-resizer does not act: it would say nothing itself, and the
 * claim would wait forever.
 */
export function ignoredClasses({ client, claims, persistentVolumes, reporter, clock }: Collaborators): Work {
  const watch: Work['watch'] = (queue) => [
    claims.onChange(({ kind, key, object: { named }, previous }) => {
      const isNew = named?.name !== previous?.named?.name || previous?.named?.missingOn === undefined;
      if (kind !== 'deleted' && named?.missingOn !== undefined && isNew) queue.addAfter(key, patienceMs);
    }),
  ];
  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const named = claims.get(key)?.named;
    const isOurs = named?.missingOn !== undefined && persistentVolumes.get(named.missingOn)?.state !== undefined;
    if (!isOurs) return Requeue.never;
    const [namespace = '', name = ''] = key.split('/');
    const about = { resource: persistentVolumeClaims, namespace, name, uid: named.claimUid };
    await writeEvent(client, reporter, about, ignored(named), clock.now(), signal);
    return Requeue.never;
  };
  return { name: 'ignored-classes', watch, reconcile, concurrency: 1, leaderOnly: true };
}

function ignored({ name }: NamedClass): EventContent {
  return {
    type: 'Warning',
    reason: 'ClassIgnored',
    action: 'Limiting',
    message: `VolumeAttributesClass ${name} is not applied, because csi-resizer does not act on it; ${sidecarsForLimits}`,
  };
}
