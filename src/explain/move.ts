import { hasLeft, leaveState } from '../api/leave.ts';
import { leave, tombstone } from '../api/names.ts';
import { hasLeftovers, tombstoneOf } from '../api/tombstone.ts';
import { cannotBegin, isCopy, isUnwanted, phaseOf, type StoredVolumeMove } from '../api/volume-move.ts';
import { formatBytes } from '../base/quantity.ts';
import type { Finding } from './explanation.ts';
import type { Claim, Known } from './known.ts';
import { controllerPods } from './nodes.ts';

/** The data of a claim is on its way to another node, or is to leave its volume, which may be released then. */
export function moveReason(claim: Claim, known: Known): Finding | undefined {
  const move = known.moveOf(claim);
  if (!move) return leaving(claim) ?? ordered(claim);
  if (!move.status) return notBegun(move);
  if (isCopy(move)) return copying(move);
  return waiting(move) ?? moving(move);
}

/** The controller writes the status of a move at once, even of one that has to wait. */
function notBegun(move: StoredVolumeMove): Finding {
  const { name, namespace } = move.metadata;
  const isOfCopy = isCopy(move);
  return {
    code: isOfCopy ? 'BeingCopied' : 'Moving',
    cause: `its ${isOfCopy ? 'copy' : 'move'} was ordered, and Moorage's controller has not begun`,
    advice: 'see whether the controller runs',
    evidence: [`VolumeMove ${name}: has no status`],
    remedy: [controllerPods, `kubectl moorage moves -n ${namespace} --watch`],
  };
}

function moving(move: StoredVolumeMove): Finding {
  const progress = progressOf(move);
  const state = progress === undefined ? phaseOf(move) : `${phaseOf(move)}, ${progress}`;
  return {
    code: 'Moving',
    cause: `its volume ${isUnwanted(move) ? 'goes back after a move' : 'moves'}${wayOf(move)} (${state})`,
    ...follow(move),
  };
}

/** It waits for what may never come, such as room on another node; so does the eviction of its pod, if a drain has created it. */
function waiting({ metadata, spec, status }: StoredVolumeMove): Finding | undefined {
  const { message = '' } = status ?? {};
  if (!message.startsWith(cannotBegin)) return undefined;
  const { name, namespace } = metadata;
  return {
    code: 'MoveCannotBegin',
    cause: `its volume cannot move yet: ${message.slice(cannotBegin.length)}`,
    advice: 'the move begins by itself when this is solved',
    evidence: [`VolumeMove ${name}: ${message}`],
    remedy: [
      'kubectl moorage nodes',
      `kubectl moorage abort ${spec.claimName} -n ${namespace} # or leave it where it is`,
    ],
  };
}

/** The source of a new claim is on another node. */
function copying(move: StoredVolumeMove): Finding {
  const state = progressOf(move) ?? move.status?.message;
  return {
    code: 'BeingCopied',
    cause: `its data is being copied${wayOf(move)}${state ? ` (${state})` : ''}`,
    ...follow(move),
  };
}

/** An operator moves its data out of the volume: docs/operators.md. */
function leaving(claim: Claim): Finding | undefined {
  const { name, annotations } = claim.metadata;
  const state = leaveState(annotations);
  if (state === undefined || hasLeft(annotations)) return undefined;
  return {
    code: 'DataLeaving',
    cause: state,
    advice: `claim and volume are deleted when the operator sets ${leave.acknowledgement}`,
    evidence: [`claim ${name}: ${leave.request} is ${annotations?.[leave.request]}`],
    remedy: withdrawal(claim),
  };
}

/** The controller acts on an order at once, and removes it when it is carried out or refused. */
function ordered(claim: Claim): Finding | undefined {
  const order = tombstoneOf(claim);
  if (!order || hasLeftovers(claim)) return undefined;
  const { name } = claim.metadata;
  if (order.kind === 'invalid') {
    return {
      code: 'ReleaseOrdered',
      cause: `nothing is done about the order to release it: ${order.message}`,
      evidence: [`claim ${name}: ${order.message}`],
      remedy: withdrawal(claim),
    };
  }
  return {
    code: 'ReleaseOrdered',
    cause: `its release was ordered with ${order.annotation}: ${order.word}, and Moorage's controller has not begun`,
    advice: 'see whether the controller runs',
    evidence: [`claim ${name}: ${order.annotation} is ${order.word}`],
    remedy: [controllerPods, ...withdrawal(claim)],
  };
}

function withdrawal({ metadata: { name, namespace, annotations = {} } }: Claim): readonly string[] {
  return tombstone.annotations
    .filter((annotation) => annotation in annotations)
    .map((annotation) => `kubectl annotate pvc ${name} -n ${namespace} ${annotation}- # withdraws the order`);
}

function wayOf({ status: { sourceNode, targetNode } = {} }: StoredVolumeMove): string {
  return `${sourceNode ? ` from node ${sourceNode}` : ''}${targetNode ? ` to node ${targetNode}` : ''}`;
}

function progressOf({ status }: StoredVolumeMove): string | undefined {
  const { copiedBytes, totalBytes } = status?.target ?? {};
  if (copiedBytes === undefined || !totalBytes) return undefined;
  return `${Math.floor((copiedBytes / totalBytes) * 100)} % of ${formatBytes(BigInt(totalBytes))}`;
}

function follow(move: StoredVolumeMove): Pick<Finding, 'evidence' | 'remedy'> {
  const { name, namespace } = move.metadata;
  const { message } = move.status ?? {};
  return {
    evidence: [`VolumeMove ${name}: ${phaseOf(move)}${message ? `: ${message}` : ''}`],
    remedy: [`kubectl moorage moves -n ${namespace} --watch`],
  };
}
