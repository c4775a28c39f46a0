import { Requeue } from '../../base/keyed-queue.ts';
import type { Work } from '../../base/work.ts';
import { isConflict } from '../../kube/api-error.ts';
import { report } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StatefulSet,
  statefulSets,
} from '../../kube/resource.ts';
import { type ClaimingSet, claimingSet, ordinalOf } from '../../kube/stateful-set.ts';
import type { ClaimUsers } from '../claims/claim-users.ts';
import type { ReleaseCollaborators } from '../node-removal/release.ts';
import { type ClaimName, nextStep } from './scale-down.ts';

interface MaybeScalable {
  readonly scalable?: ClaimName | undefined;
}

interface WatchedClaim extends MaybeScalable {
  readonly onDrain?: { readonly volumeName: string } | undefined;
}

interface Collaborators extends ReleaseCollaborators {
  /** The claims of all namespaces. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, WatchedClaim>, 'get' | 'list' | 'onChange'>;
  readonly persistentVolumes: Pick<Informer<PersistentVolume, MaybeScalable>, 'get' | 'list' | 'onChange'>;
  readonly users: Pick<ClaimUsers, 'onChange'>;
  readonly sets: Pick<Informer<StatefulSet, ClaimingSet>, 'onChange'>;
}

/** Releases the claims of pods that their StatefulSet was scaled down by, if their policy is `delete`. */
export function scaledClaims(collaborators: Collaborators): Work {
  const { client, claims, persistentVolumes: volumes, users, sets, log } = collaborators;
  const watch: Work['watch'] = (queue) => {
    const add = ({ scalable }: MaybeScalable) => {
      if (scalable) queue.add(`${scalable.namespace}/${scalable.name}`);
    };
    return [
      claims.onChange(({ kind, object }) => kind !== 'deleted' && add(object)),
      volumes.onChange(({ kind, object }) => kind !== 'deleted' && add(object)),
      sets.onChange(({ kind, object: set }) => {
        if (kind === 'deleted') return;
        const isOfSet = ({ scalable }: MaybeScalable) =>
          scalable?.namespace === set.namespace && ordinalOf(set, scalable.name) !== undefined;
        for (const each of [...claims.list(), ...volumes.list()]) if (isOfSet(each)) add(each);
      }),
      // Also pods that are not of the set may have used the claim.
      users.onChange((key, isGone) => {
        const claim = claims.get(key);
        if (isGone && (claim?.scalable ?? volumes.get(claim?.onDrain?.volumeName ?? '')?.scalable)) queue.add(key);
      }),
    ];
  };

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const [namespace = '', name = ''] = key.split('/');
    const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
    const { volumeName } = claim?.spec ?? {};
    if (!claim || !volumeName) return Requeue.never;
    const volume = await client.get(persistentVolumes, volumeName, { signal });
    const { items: users } = await client.list(pods, { namespace, signal });
    // Last, because a set that was scaled up again needs its claim.
    const { items: owners } = await client.list(statefulSets, { namespace, project: claimingSet, signal });
    const known = owners.filter((set) => set !== undefined);
    const step = nextStep({ claim, volume, pods: users, sets: known });
    if (step.kind === 'nothing') return Requeue.never;
    const { uid, resourceVersion } = claim.metadata;
    await report(collaborators, { resource: persistentVolumeClaims, namespace, name, uid }, step.event, signal);
    try {
      const preconditions = { uid, resourceVersion };
      await client.delete(persistentVolumeClaims, name, { namespace, preconditions, signal });
      log.info({ namespace, name }, 'deleted a claim because its pod was scaled away');
    } catch (error) {
      if (!isConflict(error)) throw error;
      return Requeue.after(0); // it has changed since: look again
    }
    return Requeue.never;
  };

  return { name: 'scaled-claims', watch, reconcile, concurrency: 4, leaderOnly: true };
}
