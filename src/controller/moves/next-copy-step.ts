import {
  currentBytes,
  deleting,
  recordedSourceOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { claimKey, volumeMove } from '../../api/names.ts';
import {
  claimOfMove,
  isOver,
  isTargetOf,
  isUnwanted,
  type MovePhase,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMoveStatus,
} from '../../api/volume-move.ts';
import { toQuantity } from '../../base/quantity.ts';
import { isGone } from '../node-removal/node-removal.ts';
import type { Step } from './next-step.ts';
import { isSourceMarked, type Observed } from './observed.ts';
import { failureIn, type Obstacle, targetLoss } from './obstacles.ts';
import { otherAtWork, waitForAgents } from './turns.ts';

/**
 * The next step of a copy: a VolumeMove that fills the volume of a new claim from a source on another node. The volume and
 * the source are what its LogicalVolume says, which only the controller creates: the VolumeMove alone gives nobody access
 * to data. Until the volume is unmarked, CreateVolume has not returned it, so it can be deleted.
 */
export function nextCopyStep(move: StoredVolumeMove, seen: Observed): Step {
  const isProtected = move.metadata.finalizers?.includes(volumeMove.finalizer);
  const isLeaving = move.metadata.deletionTimestamp !== undefined;
  if (isOver(move)) {
    if (!isLeaving) return { kind: 'delete-move' };
    if (!isProtected) return { kind: 'nothing' };
    return { kind: isSourceMarked(move, seen) ? 'unmark-source' : 'release' };
  }
  if (!isProtected) return { kind: isLeaving ? 'nothing' : 'protect' };
  const phase = phaseOf(move);
  const obstacle = phase === 'Aborting' || phase === 'Cleaning' ? undefined : obstacleTo(move, seen);
  if (obstacle) return { kind: 'abort', ...obstacle };
  if (move.status?.claimUID && lacksMark(move, seen)) return { kind: 'mark-source' };
  if (phase === 'Aborting') return ofAborting(move, move.status ?? {}, seen);
  if (phase === 'Cleaning') return ofCleaning(move, move.status ?? {}, seen);
  return (steps[phase] ?? ofPending)(move, seen);
}

const steps: Readonly<Partial<Record<MovePhase, (move: StoredVolumeMove, seen: Observed) => Step>>> = {
  Copying: ofCopying,
  Opening: ofOpening,
};

function obstacleTo(move: StoredVolumeMove, seen: Observed): Obstacle | undefined {
  const { claim } = seen;
  const [owner] = move.metadata.ownerReferences ?? [];
  if (!claim || claim.metadata.uid !== owner?.uid || claim.metadata.deletionTimestamp) {
    return { reason: 'ClaimDeleted', message: 'the claim was deleted' };
  }
  if (isUnwanted(move)) return { reason: 'Requested', message: 'somebody has aborted the copy' };
  if (!move.status?.claimUID) return undefined; // nothing depends on the nodes yet
  return sourceLoss(move.status, seen) ?? targetLoss(move, seen);
}

function sourceLoss({ sourceNode, size }: VolumeMoveStatus, seen: Observed): Obstacle | undefined {
  if (isGone(seen.sourceNode)) return { reason: 'SourceNodeGone', message: `node ${sourceNode} was removed` };
  const { source } = seen;
  if (!source || deleting(source) || source.status?.missingFrom) {
    return { reason: 'SourceLost', message: `the source on node ${sourceNode} was deleted before it was copied` };
  }
  const isResized = toQuantity(currentBytes(source)) !== size;
  return isResized ? { reason: 'SourceResized', message: 'the source was resized; it is copied again' } : undefined;
}

function ofPending(move: StoredVolumeMove, seen: Observed): Step {
  if (move.status?.claimUID) {
    return { kind: 'enter', phase: 'Copying', message: `copies the data from node ${move.status.sourceNode}` };
  }
  const { target, source } = seen;
  if (!target) return { kind: 'wait', message: 'waits for the request of its volume' };
  const { nodeName } = target.spec;
  if (!isFor(move, target)) {
    const message = `LogicalVolume ${target.metadata.name} was not requested for this copy; only Moorage sets spec.fill`;
    return { kind: 'refuse', reason: 'NotACopy', message };
  }
  // If its node refuses it, CreateVolume deletes it, and requests it on another node.
  if (!target.status?.volumeID) return { kind: 'wait', message: `waits until node ${nodeName} has created the volume` };
  if (!source || deleting(source)) {
    return { kind: 'abort', reason: 'SourceLost', message: 'the source was deleted before it was copied' };
  }
  const { nodeName: sourceNode } = source.spec;
  const ahead = otherAtWork(seen.others, [sourceNode, nodeName]);
  if (ahead) return { kind: 'wait', message: ahead };
  return {
    kind: 'plan',
    plan: {
      claimUID: seen.claim?.metadata.uid ?? '',
      persistentVolume: target.spec.name,
      sourceNode,
      sourceVolume: source.metadata.name,
      targetNode: nodeName,
      targetVolume: target.metadata.name,
      size: toQuantity(currentBytes(source)),
    },
  };
}

/** Whether its volume was requested together with this copy. */
function isFor(move: StoredVolumeMove, target: StoredLogicalVolume): boolean {
  return isTargetOf(move, target) && isOfClaim(move, target);
}

function isOfClaim(move: StoredVolumeMove, { metadata }: StoredLogicalVolume): boolean {
  return metadata.annotations?.[claimKey] === claimOfMove(move);
}

/** Whether it is the source, as the volume of the claim records it, and not marked yet. */
function lacksMark(move: StoredVolumeMove, seen: Observed): boolean {
  const { source, target } = seen;
  if (!source || !target || isSourceMarked(move, seen)) return false;
  return isOfClaim(move, target) && recordedSourceOf(target)?.id === volumeIdOf(source);
}

function ofCopying({ status = {} }: StoredVolumeMove): Step {
  if (!status.target?.converged) return waitForAgents(status, `copies the data from node ${status.sourceNode}`);
  return { kind: 'enter', phase: 'Opening', message: `opens it on node ${status.targetNode}` };
}

function ofOpening({ status = {} }: StoredVolumeMove): Step {
  if (!status.target?.opened)
    return waitForAgents(status, `waits until node ${status.targetNode} has opened the volume`);
  return { kind: 'enter', phase: 'Cleaning', message: `waits until node ${status.sourceNode} has released the source` };
}

function ofCleaning(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  if (seen.target && isTargetOf(move, seen.target)) return { kind: 'unmark-target' };
  return sourceInUse(move, status, seen) ?? { kind: 'finish', keptFor: [] };
}

function ofAborting(move: StoredVolumeMove, status: VolumeMoveStatus, seen: Observed): Step {
  const target = seen.target && isFor(move, seen.target) ? seen.target : undefined;
  if (target && !deleting(target)) return { kind: 'delete-target' };
  const inUse = sourceInUse(move, status, seen);
  if (inUse) return inUse;
  if (target && !isGone(seen.targetNode)) {
    return { kind: 'wait', message: `waits until node ${target.spec.nodeName} has removed the copy` };
  }
  return { kind: 'enter', phase: 'Aborted', message: failureIn(status)?.message ?? '' };
}

/** The agents do nothing to a source that is not marked. */
function sourceInUse(
  move: StoredVolumeMove,
  { sourceNode, source }: VolumeMoveStatus,
  seen: Observed,
): Step | undefined {
  if (!isSourceMarked(move, seen) || source?.released || isGone(seen.sourceNode)) return undefined;
  return { kind: 'wait', message: `waits until node ${sourceNode} has released the source` };
}
