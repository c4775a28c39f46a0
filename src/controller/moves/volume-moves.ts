import { isDeepStrictEqual } from 'node:util';
import type { LogicalVolume } from '../../api/logical-volume.ts';
import {
  claimOfMove,
  isCopy,
  isOver,
  isUnwanted,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMove,
  volumeMoves,
} from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import { isConflict } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Reporter } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Change } from '../../kube/object-cache.ts';
import { keyOf, type Node, type PersistentVolume, type PersistentVolumeClaim } from '../../kube/resource.ts';
import type { ClaimUsers } from '../claims/claim-users.ts';
import { MoveReports } from './move-reports.ts';
import { MoveSteps } from './move-steps.ts';
import { nextStep } from './next-step.ts';
import { observe } from './observe.ts';
import { isAtWork } from './turns.ts';

interface Collaborators {
  readonly client: KubeClient;
  readonly moves: Pick<Informer<VolumeMove>, 'list' | 'onChange'>;
  /** The claims, PersistentVolumes, LogicalVolumes and Nodes of the cluster: that one has changed is all that is used. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, object>, 'onChange'>;
  readonly users: ClaimUsers;
  readonly persistentVolumes: Pick<Informer<PersistentVolume, object>, 'onChange'>;
  readonly volumes: Pick<Informer<LogicalVolume>, 'onChange'>;
  readonly nodes: Pick<Informer<Node, { readonly isLeaving: boolean }>, 'onChange'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly log: Log;
}

/** More would mean that two writers undo each other's steps. */
const stepsAtOnce = 50;

/** Moves volumes: looks at everything, decides one step, does it, and looks again until there is something to wait for. */
export function movesOfVolumes(collaborators: Collaborators): Work {
  const { client, clock } = collaborators;
  const reports = new MoveReports(collaborators);
  const namespaces = new KeyedLock();
  const steps = new MoveSteps({ client, reports, now: () => clock.now() });

  const oneStep = async (namespace: string, name: string, signal: AbortSignal): Promise<Requeue | undefined> => {
    const move = await client.get(volumeMoves, name, { namespace, signal });
    if (!move) return Requeue.never;
    const seen = await observe(collaborators, move, signal);
    try {
      return await steps.run(nextStep(move, seen), move, seen, signal);
    } catch (error) {
      if (!isConflict(error)) throw error; // an agent or somebody else was faster: look again
      return undefined;
    }
  };

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const [namespace = '', name = ''] = key.split('/');
    for (let done = 0; done < stepsAtOnce; done++) {
      // One by one: otherwise one of two moves of a pod could be committed while the other one is aborted.
      const outcome = await namespaces.run(namespace, signal, () => oneStep(namespace, name, signal));
      if (outcome) return outcome;
    }
    return Requeue.after(1_000);
  };

  return { name: 'volume-moves', watch: watchOf(collaborators), reconcile, concurrency: 4, leaderOnly: true };
}

function watchOf(collaborators: Collaborators): Work['watch'] {
  const { moves, claims, users, persistentVolumes, volumes, nodes } = collaborators;
  return (queue: WorkQueue) => {
    const addThose = (isConcerned: (move: StoredVolumeMove) => boolean) => {
      for (const move of moves.list()) if (!isOver(move) && isConcerned(move)) queue.add(keyOf(move));
    };
    const ofClaim = (key: string) => addThose((move) => claimOfMove(move) === key);
    return [
      moves.onChange((change) => {
        if (change.kind !== 'deleted' && isNews(change)) queue.add(change.key);
        if (freesItsNodes(change)) addThose(hasNotBegun);
        if (change.kind === 'added') addThose(hasNotBegun); // another volume of its pod may move now, too
        if (concernsPartners(change)) addThose((move) => mayHavePartners(move, change.object));
      }),
      claims.onChange(({ key }) => ofClaim(key)),
      users.onChange((key) => addThose((move) => waitsForPods(move) && claimOfMove(move) === key)),
      persistentVolumes.onChange(({ key }) => addThose(({ status }) => status?.persistentVolume === key)),
      volumes.onChange(({ key }) =>
        addThose(({ spec, status }) => [spec.fill, status?.sourceVolume, status?.targetVolume].includes(key)),
      ),
      nodes.onChange(({ kind, key, object, previous }) => {
        if (!isDeepStrictEqual(object, previous)) addThose(isPatient); // not for each heartbeat
        if (kind !== 'deleted' && !object.isLeaving) return;
        addThose(({ status }) => status?.sourceNode === key || status?.targetNode === key);
      }),
    ];
  };
}

/** The progress of a copy, which is written every few seconds, decides nothing. */
function isNews({ object, previous }: Change<StoredVolumeMove>): boolean {
  return !isDeepStrictEqual(decisive(object), previous && decisive(previous));
}

function decisive({ metadata, status = {} }: StoredVolumeMove): unknown {
  const { message: _, target, ...rest } = status;
  const { round: _round, copiedBytes: _copied, totalBytes: _total, ...answers } = target ?? {};
  return [metadata.deletionTimestamp, metadata.finalizers, metadata.annotations, rest, answers];
}

function waitsForPods(move: StoredVolumeMove): boolean {
  return !isCopy(move) && ['Stopping', 'Freezing', 'Cleaning'].includes(phaseOf(move));
}

function hasNotBegun({ status }: StoredVolumeMove): boolean {
  return !status?.claimUID;
}

/** Whether it waits until it can begin, perhaps for room on a node. */
function isPatient(move: StoredVolumeMove): boolean {
  return move.spec.patient === true && hasNotBegun(move);
}

/** Its nodes have room for another move. */
function freesItsNodes({ kind, object, previous }: Change<StoredVolumeMove>): boolean {
  const isFree = (move: StoredVolumeMove) => !isAtWork(move);
  return kind === 'deleted' || (isFree(object) && previous !== undefined && !isFree(previous));
}

/** Another volume of the same pod may wait for it, or must be aborted, too. */
function concernsPartners({ kind, object, previous }: Change<StoredVolumeMove>): boolean {
  const decisive = (move: StoredVolumeMove) => {
    const { converged = false, verdict } = move.status?.target ?? {};
    return [phaseOf(move), isUnwanted(move), converged, verdict !== undefined];
  };
  return kind === 'deleted' || !isDeepStrictEqual(decisive(object), previous && decisive(previous));
}

function mayHavePartners(move: StoredVolumeMove, other: StoredVolumeMove): boolean {
  const isBeforeVerdict = ['Pending', 'Copying', 'Stopping', 'Freezing'].includes(phaseOf(move));
  return (
    isBeforeVerdict && move.metadata.namespace === other.metadata.namespace && move.metadata.uid !== other.metadata.uid
  );
}
