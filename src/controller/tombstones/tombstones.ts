import { leave, tombstone } from '../../api/names.ts';
import { isTombstoned, withoutLeftovers, withoutTombstone } from '../../api/tombstone.ts';
import { claimOfMove, isCopy, isOver, newVolumeMove, type VolumeMove, volumeMoves } from '../../api/volume-move.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Work } from '../../base/work.ts';
import { isConflict } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { report } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StatefulSet,
  type Stored,
} from '../../kube/resource.ts';
import { type ClaimingSet, ordinalOf } from '../../kube/stateful-set.ts';
import { logicalVolumeOf } from '../moves/observe.ts';
import { podsOf } from '../moves/observed.ts';
import { ourVolume } from '../node-removal/plan.ts';
import { giveUpVolume, type ReleaseCollaborators } from '../node-removal/release.ts';
import { nextStep, type Observed, type Step } from './next-step.ts';

interface Collaborators extends ReleaseCollaborators {
  /** The claims of all namespaces. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, { readonly isTombstoned: boolean }>, 'get' | 'onChange'>;
  readonly moves: Pick<Informer<VolumeMove>, 'onChange'>;
  readonly sets: Pick<Informer<StatefulSet, ClaimingSet>, 'list' | 'whenSynced'>;
}

/** More would mean that two writers undo each other's steps. */
const stepsAtOnce = 20;

/** Carries out the orders on claims: looks at everything, decides one step, does it, and looks again. */
export function tombstones(collaborators: Collaborators): Work {
  const { client, claims, moves, sets } = collaborators;
  const watch: Work['watch'] = (queue) => [
    claims.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && object.isTombstoned) queue.add(key);
    }),
    moves.onChange(({ kind, object }) => {
      const claim = claimOfMove(object);
      if ((kind === 'deleted' || isOver(object)) && claims.get(claim)?.isTombstoned) queue.add(claim);
    }),
  ];

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    await sets.whenSynced(signal);
    const [namespace = '', name = ''] = key.split('/');
    const isRecreated = ({ metadata }: Stored<PersistentVolumeClaim>) =>
      Boolean(metadata.ownerReferences?.some(({ controller }) => controller)) ||
      sets.list().some((set) => set.namespace === namespace && ordinalOf(set, name) !== undefined);
    for (let done = 0; done < stepsAtOnce; done++) {
      const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
      if (!claim || !isTombstoned(claim)) return Requeue.never;
      const seen = await observe(client, claim, isRecreated(claim), signal);
      try {
        if (!(await take(nextStep(seen), claim, signal))) return Requeue.never;
      } catch (error) {
        if (!isConflict(error)) throw error; // somebody else was faster: look again
      }
    }
    return Requeue.after(1_000);
  };

  /** Returns whether there is more to do at once. */
  const take = async (step: Step, claim: Stored<PersistentVolumeClaim>, signal: AbortSignal): Promise<boolean> => {
    const { namespace = '', name, uid, resourceVersion } = claim.metadata;
    const about = { resource: persistentVolumeClaims, namespace, name, uid };
    const annotate = async (annotations: Readonly<Record<string, string | null>>) => {
      const body = { metadata: { uid, resourceVersion, annotations } };
      await client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
    };
    switch (step.kind) {
      case 'nothing':
        return false;
      case 'report':
        await report(collaborators, about, step.event, signal);
        return false;
      case 'end':
        await report(collaborators, about, step.event, signal);
        await annotate(withoutTombstone);
        return false;
      case 'give-up':
        await giveUpVolume(client, step.volume.metadata, signal);
        return true;
      case 'delete-claim': {
        for (const event of step.events) await report(collaborators, about, event, signal);
        const preconditions = { uid, resourceVersion };
        await client.delete(persistentVolumeClaims, name, { namespace, preconditions, signal });
        collaborators.log.info({ namespace, name }, 'deleted a claim as its annotation says');
        return true;
      }
      case 'delete-pods':
        for (const pod of step.pods) await deletePod(pod, name, step.isForced, signal);
        return false;
      case 'ask-operator':
        await annotate({ [leave.request]: `${step.nodeName}@${new Date(collaborators.clock.now()).toISOString()}` });
        return true;
      case 'withdraw':
        await annotate(withoutLeftovers);
        return false;
      case 'move':
        await client.create(volumeMoves, newVolumeMove(namespace, { claimName: name }), { signal });
        return true;
      case 'follow':
        await annotate({ [tombstone.move]: step.move.metadata.name });
        return true;
    }
  };

  const deletePod = async ({ metadata }: Stored<Pod>, claim: string, isForced: boolean, signal: AbortSignal) => {
    const { namespace, name, uid } = metadata;
    const message = `deleting this pod, because its claim ${claim} was released`;
    const event = { type: 'Warning', reason: 'ClaimReleased', action: 'Releasing', message } as const;
    await report(collaborators, { resource: pods, namespace, name, uid }, event, signal);
    const grace = isForced ? { gracePeriodSeconds: 0 } : {};
    await client.delete(pods, name, { namespace, preconditions: { uid }, ...grace, signal });
  };

  return { name: 'tombstones', watch, reconcile, concurrency: 4, leaderOnly: true };
}

/** Reads everything from the API server: what is decided may give data up. */
async function observe(
  client: Pick<KubeClient, 'get' | 'list'>,
  claim: Stored<PersistentVolumeClaim>,
  isRecreated: boolean,
  signal: AbortSignal,
): Promise<Observed> {
  const { namespace = '', name } = claim.metadata;
  const { volumeName } = claim.spec ?? {};
  const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
  const logicalVolume = await logicalVolumeOf(client, volume, signal);
  const nodeName = (volume && ourVolume(volume)?.nodeNames?.[0]) ?? logicalVolume?.spec.nodeName;
  const { items: found } = await client.list(pods, { namespace, signal });
  const { items: moves } = await client.list(volumeMoves, { namespace, signal });
  return {
    claim,
    volume,
    logicalVolume,
    node: nodeName ? await client.get(nodes, nodeName, { signal }) : undefined,
    pods: podsOf(name, found),
    moves: moves.filter((move) => move.spec.claimName === name && !isCopy(move)),
    isRecreated,
  };
}
