import {
  bytesOf,
  currentBytes,
  deleting,
  failureOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import {
  claimOfMove,
  isTargetOf,
  isUnwanted,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMoveStatus,
} from '../../api/volume-move.ts';
import type { PersistentVolumeClaim, Stored } from '../../kube/resource.ts';
import { isGone } from '../node-removal/node-removal.ts';
import { isBare, type Observed, siblingsIn } from './observed.ts';
import { handleOf, isOfClaim } from './persistent-volume-switch.ts';
import { abortedPartner, isCommittedTogether } from './together.ts';

/** Why a move cannot begin or go on. */
export interface Obstacle {
  /** One UpperCamelCase word. */
  readonly reason: string;
  readonly message: string;
}

/** Why a move that has no verdict yet must be aborted. */
export function obstacleBeforeVerdict(move: StoredVolumeMove, seen: Observed): Obstacle | undefined {
  const request = isCommittedTogether(seen) ? undefined : (requestedAbort(move) ?? abortOfPartner(seen));
  return (
    request ??
    claimObstacle(move, seen) ??
    sourceObstacle(move, seen) ??
    targetLoss(move, seen) ??
    podObstacle(move, seen)
  );
}

function requestedAbort(move: StoredVolumeMove): Obstacle | undefined {
  if (!isUnwanted(move)) return undefined;
  const message = move.metadata.deletionTimestamp ? 'the move was deleted' : 'somebody has aborted it';
  return { reason: 'Requested', message };
}

function abortOfPartner(seen: Observed): Obstacle | undefined {
  const name = abortedPartner(seen);
  if (name === undefined) return undefined;
  return { reason: 'AbortedTogether', message: `VolumeMove ${name} was aborted, and a pod uses both volumes` };
}

/** Why it is not successful. */
export function failureIn({ conditions = [] }: VolumeMoveStatus): Obstacle | undefined {
  return conditions.find(({ type, status }) => type === 'Succeeded' && status === 'False');
}

/** The claim that is moved was deleted; the one of this name, if any, is another. */
export function isClaimGone({ status }: StoredVolumeMove, { claim }: Observed): boolean {
  return !claim || claim.metadata.uid !== status?.claimUID || claim.metadata.deletionTimestamp !== undefined;
}

/** Why the target cannot get, or does not have, the data any more. */
export function targetLoss(move: StoredVolumeMove, { target, targetNode }: Observed): Obstacle | undefined {
  const { status } = move;
  const name = status?.targetNode ?? '';
  if (isGone(targetNode)) return { reason: 'TargetNodeGone', message: `node ${name} was removed` };
  const failure = target && failureOf(target);
  if (failure) return { reason: 'TargetRefused', message: `node ${name}: ${failure.message}` };
  const wasCreated = status?.phase !== undefined && status.phase !== 'Pending';
  const isLost = target ? deleting(target) || Boolean(target.status?.missingFrom) : wasCreated;
  if (isLost) return { reason: 'TargetLost', message: `the new volume on node ${name} is gone` };
  if (!target || isTargetOf(move, target)) return undefined;
  const message = `LogicalVolume ${target.metadata.name} on node ${name} was not created for this move`;
  return { reason: 'TargetLost', message };
}

/** Growing a volume while it is copied would lose what is written beyond its old end. */
export function isResizing({ spec, status }: Stored<PersistentVolumeClaim>, source: StoredLogicalVolume): boolean {
  const requested = spec?.resources?.requests?.['storage'];
  const actual = status?.capacity?.['storage'];
  const isClaimGrowing = requested !== undefined && actual !== undefined && bytesOf(requested) > bytesOf(actual);
  const isPending = (status?.conditions ?? []).some((each) => /Resiz/.test(each.type) && each.status === 'True');
  return isClaimGrowing || isPending || bytesOf(source.spec.size) > currentBytes(source);
}

/** Pods that would not come back, unless somebody has agreed. */
export function barePods({ spec }: StoredVolumeMove, { pods }: Observed): Obstacle | undefined {
  const bare = spec.stopBarePods ? [] : pods.filter((pod) => isBare(pod) && !pod.metadata.deletionTimestamp);
  if (bare.length === 0) return undefined;
  const names = bare.map(({ metadata }) => metadata.name).join(', ');
  const message = `nothing would start pod ${names} again, because it has no owner; stop it, or set stopBarePods: true`;
  return { reason: 'BarePod', message };
}

/** A pod runs on one node: all its local volumes must move together. */
export function pinnedElsewhere(target: string | undefined, seen: Observed): Obstacle | undefined {
  const siblings = siblingsIn(seen);
  const moves = (claim: string) =>
    siblings.some((move) => {
      const goal = move.status?.targetNode ?? move.spec.targetNode;
      return claimOfMove(move) === claim && (!goal || !target || goal === target);
    });
  const left = seen.pinned.find(({ claim, nodeNames }) => !(target && nodeNames.includes(target)) && !moves(claim));
  if (!left) return undefined;
  const message =
    `pod ${left.pod} also uses claim ${left.claim}, whose volume is on node ${left.nodeNames.join(', ')}; ` +
    `move all volumes of the pod together: kubectl moorage migrate pod/${left.pod}`;
  return { reason: 'PodHasOtherVolumes', message };
}

function claimObstacle(move: StoredVolumeMove, seen: Observed): Obstacle | undefined {
  if (isClaimGone(move, seen)) return { reason: 'ClaimDeleted', message: 'the claim was deleted' };
  const { volume, source } = seen;
  const isIts = volume && isOfClaim(volume, move) && (!source || handleOf(volume) === volumeIdOf(source));
  if (!isIts || volume.metadata.deletionTimestamp) {
    const message = `PersistentVolume ${move.status?.persistentVolume} was replaced or deleted by somebody else`;
    return { reason: 'VolumeReplaced', message };
  }
  return undefined;
}

function sourceObstacle({ status }: StoredVolumeMove, { claim, source, sourceNode }: Observed): Obstacle | undefined {
  const name = status?.sourceNode ?? '';
  if (isGone(sourceNode)) return { reason: 'SourceNodeGone', message: `node ${name} was removed` };
  if (!source || deleting(source) || source.status?.missingFrom) {
    return { reason: 'SourceLost', message: `the volume on node ${name} is gone` };
  }
  if (claim && isResizing(claim, source)) {
    const message = 'the volume is being resized; move it again when that is done';
    return { reason: 'ResizeInProgress', message };
  }
  return undefined;
}

/** Only until the pods are stopped: then they do not use the volume any more. */
function podObstacle(move: StoredVolumeMove, seen: Observed): Obstacle | undefined {
  const phase = phaseOf(move);
  if (phase === 'Freezing' || (phase === 'Stopping' && move.status?.pods)) return undefined;
  return barePods(move, seen) ?? (phase === 'Stopping' ? undefined : pinnedElsewhere(move.status?.targetNode, seen));
}
