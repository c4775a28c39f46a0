import { isDeepStrictEqual } from 'node:util';
import { reserve } from '../../api/names.ts';
import { claimOfMove, isCopy, isOver, type VolumeMove } from '../../api/volume-move.ts';
import { pause } from '../../base/abortable.ts';
import { codeOf, messageOf } from '../../base/errors.ts';
import { type Aside, Requeue } from '../../base/keyed-queue.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type EventContent, type Reporting, report } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type CsiDriver,
  claimNamesOf,
  type Lease,
  type Node,
  nodes as nodeResource,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../../kube/resource.ts';
import type { ClaimUsers } from '../claims/claim-users.ts';
import { ourVolume } from '../node-removal/plan.ts';
import { nextStep, type Observed, type Step } from './next-step.ts';
import { claimOf, toPlaceholder, type WatchedPlaceholder } from './placeholder.ts';

interface Collaborators extends Reporting {
  readonly client: KubeClient;
  /** Where placeholders are: Moorage's own. */
  readonly namespace: string;
  /** The claims of all namespaces. */
  readonly claims: Pick<
    Informer<PersistentVolumeClaim, { readonly reserve: string | undefined }>,
    'get' | 'onChange' | 'whenSynced'
  >;
  readonly users: ClaimUsers;
  readonly placeholders: Pick<Informer<Pod, WatchedPlaceholder>, 'list' | 'onChange'>;
  readonly nodes: Pick<Informer<Node, object>, 'onChange'>;
  readonly moves: Pick<Informer<VolumeMove>, 'list' | 'onChange' | 'whenSynced'>;
  readonly driver: Pick<Informer<CsiDriver, { readonly uid: string }>, 'list' | 'whenSynced'>;
  /** That of kube-scheduler, if its instances elect a leader: the name of the leader. */
  readonly scheduler: Pick<Informer<Lease, string>, 'list' | 'onChange'>;
}

/** More would mean that two writers undo each other's steps. */
const stepsAtOnce = 10;

/**
 * What makes the node take the pod also makes the scheduler try it, while the placeholder still keeps it out, and that attempt
 * withdraws the nomination. A nomination that is older than this was not withdrawn.
 */
const attemptMs = 1_000;

/** Keeps the room of pods that are away, for claims that say so: looks at everything, decides one step, does it, looks again. */
export function reservedRoom(collaborators: Collaborators): Work {
  const { client, namespace: own, claims, users, moves, driver, scheduler, clock, log } = collaborators;

  const observe = async (key: string, signal: AbortSignal): Promise<Observed> => {
    await Promise.all([claims, moves, driver].map((watch) => watch.whenSynced(signal)));
    const [namespace = '', name = ''] = key.split('/');
    const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
    const { volumeName } = claim?.spec ?? {};
    const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
    const [nodeName] = (volume && ourVolume(volume)?.nodeNames) ?? [];
    const node = nodeName ? await client.get(nodeResource, nodeName, { signal }) : undefined;
    const labelSelector = reserve.label;
    const { items: placeholders } = await client.list(pods, { namespace: own, labelSelector, signal });
    // Last, because the scheduler may withdraw a nomination just before the placeholder is deleted.
    const found = await users.of(key, signal);
    return {
      claim,
      node,
      isMoving: moves.list().some((move) => claimOfMove(move) === key && !isOver(move) && !isCopy(move)),
      isLeftToOther: found.some((pod) => claimNamesOf(pod).some((other) => other < name && reserves(namespace, other))),
      pods: found,
      placeholders: placeholders.filter((placeholder) => claimOf(placeholder) === key),
      scheduler: scheduler.list()[0],
    };
  };

  const reserves = (namespace: string, name: string) => claims.get(`${namespace}/${name}`)?.reserve === 'true';

  const nominate = async ({ metadata }: Stored<Pod>, nodeName: string, annotations: object, signal: AbortSignal) => {
    const { namespace, name, uid, resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion, annotations }, status: { nominatedNodeName: nodeName } };
    await client.patch(pods, name, { type: 'merge', body }, { namespace, subresource: 'status', signal });
  };

  /** Returns whether there is more to do at once. */
  const take = async (
    step: Step,
    { claim, scheduler: leader }: Observed,
    signal: AbortSignal,
    aside: Aside,
  ): Promise<boolean> => {
    const { namespace, name = '', uid } = claim?.metadata ?? {};
    const tell = (event: EventContent) =>
      report(collaborators, { resource: persistentVolumeClaims, namespace, name, uid }, event, signal);
    switch (step.kind) {
      case 'nothing':
        return false;
      case 'create': {
        const [owner] = driver.list();
        if (!claim || !owner) return false;
        try {
          await client.create(pods, toPlaceholder(step.pod, claim, { namespace: own, ownerUid: owner.uid }), {
            signal,
          });
        } catch (error) {
          if (codeOf(error) !== 'PermissionDenied' && codeOf(error) !== 'InvalidArgument') throw error;
          await tell(notReserved(step.nodeName, messageOf(error)));
          return false;
        }
        return true;
      }
      case 'nominate-placeholder': {
        const annotations = leader === undefined ? {} : { [reserve.toldAnnotation]: leader };
        await nominate(step.placeholder, step.nodeName, annotations, signal);
        await tell(reserved(step.nodeName));
        return false;
      }
      case 'nominate-pod':
        await nominate(step.pod, step.nodeName, {}, signal);
        await aside(pause(clock, attemptMs, signal));
        return true;
      case 'delete': {
        const { metadata } = step.placeholder;
        await client.delete(pods, metadata.name, { namespace: own, preconditions: { uid: metadata.uid }, signal });
        log.info(
          { claim: claimOf(step.placeholder), node: step.placeholder.status?.nominatedNodeName },
          'gave reserved room back',
        );
        return true;
      }
    }
  };

  const reconcile = async (key: string, signal: AbortSignal, aside: Aside): Promise<Requeue> => {
    for (let done = 0; done < stepsAtOnce; done++) {
      const seen = await observe(key, signal);
      try {
        if (!(await take(nextStep(seen), seen, signal, aside))) return Requeue.never;
      } catch (error) {
        if (!isConflict(error) && !isAlreadyExists(error) && !isNotFound(error)) throw error; // it has changed since: look again
      }
    }
    return Requeue.after(1_000);
  };

  return { name: 'reserved-room', watch: watchOf(collaborators), reconcile, concurrency: 4, leaderOnly: true };
}

function watchOf({ claims, users, placeholders, nodes, moves, scheduler }: Collaborators): Work['watch'] {
  return (queue: WorkQueue) => {
    const addIfReserving = (claim: string) => {
      if (claims.get(claim)?.reserve !== undefined) queue.add(claim);
    };
    const addThose = (isConcerned: (placeholder: WatchedPlaceholder) => boolean) => {
      for (const placeholder of placeholders.list()) if (isConcerned(placeholder)) queue.add(placeholder.claim);
    };
    return [
      claims.onChange(({ key, object, previous }) => {
        if (object.reserve !== undefined || previous?.reserve !== undefined) queue.add(key);
      }),
      users.onChange(addIfReserving),
      placeholders.onChange(({ object }) => queue.add(object.claim)),
      nodes.onChange(({ kind, key, object, previous }) => {
        if (kind === 'deleted' || !isDeepStrictEqual(object, previous)) addThose(({ nodeName }) => nodeName === key); // not for each heartbeat
      }),
      moves.onChange(({ object }) => addIfReserving(claimOfMove(object))),
      scheduler.onChange(({ object, previous }) => {
        if (object !== previous) addThose(() => true); // not for each renewal
      }),
    ];
  };
}

function reserved(nodeName: string): EventContent {
  const message = `the CPU and memory of its pod are kept on node ${nodeName} until it returns`;
  return { type: 'Normal', reason: 'RoomReserved', action: 'Reserving', message };
}

function notReserved(nodeName: string, why: string): EventContent {
  const message = `cannot keep the CPU and memory of its pod on node ${nodeName}: ${why}`;
  return { type: 'Warning', reason: 'RoomNotReserved', action: 'Reserving', message };
}
