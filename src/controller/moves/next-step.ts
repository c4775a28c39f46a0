import { deleting, volumeIdOf } from '../../api/logical-volume.ts';
import { claimKey, movedAnnotation, volumeMove } from '../../api/names.ts';
import {
  claimOfMove,
  isCopy,
  isOver,
  isTargetOf,
  type MovePhase,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMoveStatus,
} from '../../api/volume-move.ts';
import type { PersistentVolume, Pod, Stored } from '../../kube/resource.ts';
import { isGone } from '../node-removal/node-removal.ts';
import { nextCopyStep } from './next-copy-step.ts';
import { isBare, isSourceMarked, type Observed, siblingsIn } from './observed.ts';
import { failureIn, isClaimGone, type Obstacle, obstacleBeforeVerdict, targetLoss } from './obstacles.ts';
import {
  handleOf,
  isOfClaim,
  manifestOf,
  type SwitchStep,
  savedVolume,
  switchedTo,
  switchStep,
} from './persistent-volume-switch.ts';
import { type MovePlan, planMove } from './plan-move.ts';
import { unreadyPartner } from './together.ts';
import { waitForAgents } from './turns.ts';

type Pods = readonly Stored<Pod>[];
type Verdict = NonNullable<VolumeMoveStatus['verdict']>;

/** Steps that only write the status of the move. */
export type RecordedStep =
  /** Until something changes; the message says what. */
  | { readonly kind: 'wait'; readonly message: string; readonly forMs?: number }
  | { readonly kind: 'plan'; readonly plan: MovePlan }
  /** Ends a move that has changed nothing. */
  | ({ readonly kind: 'refuse' } & Obstacle)
  | ({ readonly kind: 'abort' } & Obstacle)
  | {
      readonly kind: 'enter';
      readonly phase: MovePhase;
      readonly message: string;
      /** The names of the moves that belong together with this one. */
      readonly together?: readonly string[];
    }
  /** Which pods are stopped: those that may have got the volume before it was fenced. */
  | { readonly kind: 'record-pods'; readonly pods: Pods }
  | { readonly kind: 'commit'; readonly manifest: string; readonly verdict: Verdict }
  /** The PersistentVolume is again as it was. */
  | { readonly kind: 'record-return' }
  | { readonly kind: 'finish'; readonly keptFor: readonly string[] };

/** One step of the controller. Each can be repeated after a crash, and changes one thing. */
export type Step =
  | { readonly kind: 'nothing' }
  | RecordedStep
  /** Sets the finalizer, before anything else is done; `release` removes it. */
  | { readonly kind: 'protect' | 'release' }
  /** Only a copy, which nobody looks at when it is over. */
  | { readonly kind: 'delete-move' }
  | { readonly kind: 'create-target' | 'unmark-target' | 'delete-target' }
  /** Before anything is done with it, and when the move is over. */
  | { readonly kind: 'mark-source' | 'unmark-source' }
  | { readonly kind: 'delete-source' }
  | { readonly kind: 'evict-pods'; readonly pods: Pods }
  /** Pods that wait on the source node, where they can never start. */
  | { readonly kind: 'delete-pods'; readonly pods: Pods }
  | Exclude<SwitchStep, { readonly kind: 'switched' | 'foreign' }>
  | { readonly kind: 'touch-claim'; readonly nodeName: string };

type Decide = (move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed) => Step;

const steps: Readonly<Partial<Record<MovePhase, Decide>>> = {
  Pending: beforeVerdict(ofPending),
  Copying: beforeVerdict(ofCopying),
  Stopping: beforeVerdict(ofStopping),
  Freezing: beforeVerdict(ofFreezing),
  Committed: marked(ofCommitted),
  Switching: marked(ofSwitching),
  Opening: marked(ofOpening),
  Cleaning: marked(ofCleaning),
  Aborting: marked(ofAborting),
};

/** The next step of a move, in any phase, whatever has happened meanwhile. */
export function nextStep(move: StoredVolumeMove, seen: Observed): Step {
  if (isCopy(move)) return nextCopyStep(move, seen);
  const isProtected = move.metadata.finalizers?.includes(volumeMove.finalizer);
  if (isOver(move) && !isProtected) return { kind: 'nothing' };
  if (isOver(move)) return { kind: isSourceMarked(move, seen) ? 'unmark-source' : 'release' };
  if (!isProtected) return { kind: move.metadata.deletionTimestamp ? 'nothing' : 'protect' };
  if (!move.status?.claimUID) return planMove(move, seen);
  return steps[phaseOf(move)]?.(move, move.status, seen) ?? { kind: 'nothing' };
}

/** Whatever happens before the verdict, the way back is the same. */
function beforeVerdict(decide: Decide): Decide {
  return (move, status, seen) => {
    const obstacle = obstacleBeforeVerdict(move, seen);
    return obstacle ? { kind: 'abort', ...obstacle } : marked(decide)(move, status, seen);
  };
}

/** A move that began before sources were marked may be in any phase. */
function marked(decide: Decide): Decide {
  return (move, status, seen) => {
    const isMissing = !isSourceMarked(move, seen) && isItsSource(move, seen);
    return isMissing ? { kind: 'mark-source' } : decide(move, status, seen);
  };
}

/**
 * Whether the PersistentVolume of the claim names it, or did before it was replaced. What the status has saved proves nothing:
 * earlier versions let others write it. So the LogicalVolume must name the claim, too.
 */
function isItsSource(move: StoredVolumeMove, { source, volume }: Observed): boolean {
  if (!source || (volume && !isOfClaim(volume, move))) return false;
  if (volume && handleOf(volume) === volumeIdOf(source)) return true;
  const saved = savedVolume(move);
  const isSaved = saved !== undefined && handleOf(saved) === volumeIdOf(source);
  return isSaved && source.metadata.annotations?.[claimKey] === claimOfMove(move);
}

function ofPending(_: StoredVolumeMove, { targetNode }: VolumeMoveStatus, { target }: Observed): Step {
  if (!target) return { kind: 'create-target' };
  if (!target.status?.volumeID)
    return { kind: 'wait', message: `waits until node ${targetNode} has created the volume` };
  return { kind: 'enter', phase: 'Copying', message: 'copies the data while the pods run' };
}

function ofCopying(_: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  if (!status.target?.converged) return waitForAgents(status, 'copies the data while the pods run');
  const siblings = siblingsIn(seen);
  const slower = siblings.find((each) => !each.status?.target?.converged);
  if (slower) return waitForPartner(slower.metadata.name);
  return {
    kind: 'enter',
    phase: 'Stopping',
    message: `node ${status.sourceNode} closes the volume to new pods`,
    together: siblings.map(({ metadata }) => metadata.name),
  };
}

function ofStopping(_: StoredVolumeMove, status: VolumeMoveStatus, { pods }: Observed): Step {
  const { sourceNode } = status;
  if (!status.source?.fenced) {
    return waitForAgents(status, `waits until node ${sourceNode} has closed the volume to new pods`);
  }
  if (!status.pods) return { kind: 'record-pods', pods: pods.filter(({ spec }) => spec?.nodeName) };
  const uids = new Set(status.pods.map(({ uid }) => uid));
  const left = pods.filter(({ metadata }) => uids.has(metadata.uid));
  const running = left.filter(({ metadata }) => !metadata.deletionTimestamp);
  if (running.length > 0) return { kind: 'evict-pods', pods: running };
  if (left.length > 0) {
    const stopped = left.length === 1 ? `pod ${namesOf(left)} has` : `pods ${namesOf(left)} have`;
    return { kind: 'wait', message: `waits until ${stopped} stopped` };
  }
  return { kind: 'enter', phase: 'Freezing', message: `waits until nothing uses the volume on node ${sourceNode}` };
}

function ofFreezing(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  const { source, target, sourceNode } = status;
  const { volume } = seen;
  if (!source?.readOnly) {
    // The kubelet keeps a device open while another pod waits for it on the node.
    const waiting = source?.message ? stuckPods(move, status, seen) : [];
    if (waiting.length > 0) return { kind: 'delete-pods', pods: waiting };
    return waitForAgents(status, `waits until nothing uses the volume on node ${sourceNode}`);
  }
  if (!target?.verdict || !volume) return waitForAgents(status, 'copies the last changes');
  const unready = unreadyPartner(seen);
  if (unready !== undefined) return waitForPartner(unready);
  return { kind: 'commit', manifest: manifestOf(volume), verdict: target.verdict };
}

function waitForPartner(name: string): Step {
  return { kind: 'wait', message: `waits for VolumeMove ${name}, because a pod uses both volumes` };
}

/** Nothing was changed yet, so there is still a way back without a trace. */
function ofCommitted(move: StoredVolumeMove, _: VolumeMoveStatus, seen: Observed): Step {
  const obstacle = isClaimGone(move, seen)
    ? { reason: 'ClaimDeleted', message: 'the claim was deleted' }
    : targetLoss(move, seen);
  if (obstacle) return { kind: 'abort', ...obstacle };
  return { kind: 'enter', phase: 'Switching', message: 'replaces the PersistentVolume' };
}

function ofSwitching(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  const loss = targetLoss(move, seen);
  if (loss || !seen.target) return { kind: 'abort', ...(loss ?? { reason: 'TargetLost', message: '' }) };
  const { targetNode: nodeName = '' } = status;
  const saved = savedVolume(move);
  if (!saved) return unsaved(move);
  const handle = volumeIdOf(seen.target);
  const wanted = switchedTo(saved, { handle, nodeName });
  if (!isCurrent(seen.volume, handle)) return switching(seen.volume, wanted, [handle, handleOf(saved)]);
  return (
    boundStep(move, seen, nodeName) ?? { kind: 'enter', phase: 'Opening', message: `opens it on node ${nodeName}` }
  );
}

/** Kubernetes binds a new PersistentVolume at once, but looks at its claim again only if that changes. */
function boundStep(move: StoredVolumeMove, seen: Observed, nodeName: string): Step | undefined {
  if (isClaimGone(move, seen)) return undefined;
  if (seen.volume?.status?.phase !== 'Bound') return { kind: 'wait', message: 'waits until the claim is bound again' };
  const touched = seen.claim?.metadata.annotations?.[movedAnnotation];
  return touched === nodeName ? undefined : { kind: 'touch-claim', nodeName };
}

function ofOpening(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  const clean: Step = {
    kind: 'enter',
    phase: 'Cleaning',
    message: `removes the volume from node ${status.sourceNode}`,
  };
  if (status.target?.opened) return clean;
  if (isClaimGone(move, seen) && !seen.target) return clean; // its owner has deleted the claim, and with it the volume
  const loss = targetLoss(move, seen);
  if (loss) return { kind: 'abort', ...loss };
  return waitForAgents(status, `waits until node ${status.targetNode} has opened the volume`);
}

function ofCleaning(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  const stuck = stuckPods(move, status, seen);
  if (stuck.length > 0) return { kind: 'delete-pods', pods: stuck };
  if (seen.target && isTargetOf(move, seen.target)) return { kind: 'unmark-target' };
  const isNodeGone = isGone(seen.sourceNode);
  if (!seen.source || isNodeGone) return { kind: 'finish', keptFor: [] };
  if (!status.source?.released) return waitForAgents(status, `waits for the agent of node ${status.sourceNode}`);
  if (deleting(seen.source)) {
    return { kind: 'wait', message: `waits until node ${status.sourceNode} has removed its volume` };
  }
  if (seen.snapshots.length > 0) return { kind: 'finish', keptFor: seen.snapshots };
  if (mayDeleteSource(move, seen)) return { kind: 'delete-source' };
  const message =
    `keeps the volume on node ${status.sourceNode}, because PersistentVolume ${status.persistentVolume} ` +
    'does not name the new one; look at it, and at kubectl moorage orphans';
  return { kind: 'wait', message };
}

/** The PersistentVolume must name the new volume. Without a claim its policy decides about both volumes. */
function mayDeleteSource(move: StoredVolumeMove, seen: Observed): boolean {
  if (!isSourceMarked(move, seen)) return false;
  if (seen.target && isCurrent(seen.volume, volumeIdOf(seen.target))) return true;
  const policy = savedVolume(move)?.spec?.persistentVolumeReclaimPolicy;
  return isClaimGone(move, seen) && !seen.volume && !seen.target && policy === 'Delete';
}

function ofAborting(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  if (isSwitched(status)) {
    const back = stepBack(move, status, seen);
    if (back) return back;
  }
  const target = seen.target && isTargetOf(move, seen.target) ? seen.target : undefined;
  if (target && !deleting(target)) return { kind: 'delete-target' };
  const { sourceNode, targetNode, startedAt } = status;
  // The agents do nothing before the copy begins, and nothing to a volume that is not marked.
  const isUsed = startedAt && isSourceMarked(move, seen);
  if (isUsed && !status.source?.released && !isGone(seen.sourceNode)) {
    return waitForAgents(status, `waits until node ${sourceNode} has released the volume`);
  }
  if (target && !isGone(seen.targetNode)) {
    return { kind: 'wait', message: `waits until node ${targetNode} has removed the copy` };
  }
  return { kind: 'enter', phase: 'Aborted', message: failureIn(status)?.message ?? '' };
}

/** The PersistentVolume becomes as it was saved; the source still has all data, as nothing was written to the target. */
function stepBack(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step | undefined {
  const isPointless = isClaimGone(move, seen) && !seen.source;
  const saved = savedVolume(move);
  if (!saved && !isPointless) return unsaved(move);
  const target = seen.target && isTargetOf(move, seen.target) ? volumeIdOf(seen.target) : undefined;
  const step =
    !saved || isPointless ? ({ kind: 'switched' } as const) : switchStep(seen.volume, saved, [handleOf(saved), target]);
  if (step.kind === 'foreign') return foreign(status);
  if (step.kind !== 'switched') return step;
  return (isPointless ? undefined : boundStep(move, seen, status.sourceNode ?? '')) ?? { kind: 'record-return' };
}

function switching(
  current: Stored<PersistentVolume> | undefined,
  wanted: PersistentVolume,
  known: readonly (string | undefined)[],
): Step {
  const step = switchStep(current, wanted, known);
  if (step.kind === 'switched') return { kind: 'nothing' };
  return step.kind === 'foreign' ? foreign({ persistentVolume: wanted.metadata?.name ?? '' }) : step;
}

function foreign({ persistentVolume }: Pick<VolumeMoveStatus, 'persistentVolume'>): Step {
  const message =
    `waits, because PersistentVolume ${persistentVolume} has another volume than this move knows; ` +
    'somebody else created it: the move continues when it is gone';
  return { kind: 'wait', message };
}

/** The status is not what the controller has written. */
function unsaved({ status }: StoredVolumeMove): Step {
  const message =
    `waits, because status.manifest is not the PersistentVolume of its claim, ${status?.persistentVolume}; ` +
    'create that PersistentVolume if it is missing; then delete the move and remove its finalizer';
  return { kind: 'wait', message };
}

function isCurrent(volume: Stored<PersistentVolume> | undefined, handle: string): boolean {
  return volume !== undefined && handleOf(volume) === handle && !volume.metadata.deletionTimestamp;
}

/** Whether the PersistentVolume was, or may have been, replaced. */
export function isSwitched({ conditions = [] }: VolumeMoveStatus): boolean {
  return conditions.some(({ type, status }) => type === 'Switched' && status === 'True');
}

/** Pods that wait on the source node, which does not give them the volume any more. */
function stuckPods(move: StoredVolumeMove, { sourceNode }: VolumeMoveStatus, { pods }: Observed): Pods {
  return pods.filter(
    (pod) => pod.spec?.nodeName === sourceNode && !pod.metadata.deletionTimestamp && mayStop(move, pod),
  );
}

function mayStop({ spec }: StoredVolumeMove, pod: Pod): boolean {
  return !isBare(pod) || spec.stopBarePods === true;
}

function namesOf(pods: Pods): string {
  return pods.map(({ metadata }) => metadata.name).join(', ');
}
