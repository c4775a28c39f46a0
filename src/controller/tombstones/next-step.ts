import { hasLeft } from '../../api/leave.ts';
import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  asOnDrain,
  drainedFromAnnotation,
  leave,
  logicalVolume as named,
  onDrain,
  pendingDeletionAnnotation,
  tombstone,
} from '../../api/names.ts';
import { invalidPolicyText, policyWord } from '../../api/policies.ts';
import { hasLeftovers, tombstoneOf } from '../../api/tombstone.ts';
import { isOver, phaseOf, type StoredVolumeMove } from '../../api/volume-move.ts';
import type { EventContent } from '../../kube/events.ts';
import type { Node, PersistentVolume, PersistentVolumeClaim, Pod, Stored } from '../../kube/resource.ts';
import { drainCare } from '../drain/decide.ts';
import { isBare } from '../moves/observed.ts';
import { isGone } from '../node-removal/node-removal.ts';
import { type OurVolume, ourVolume } from '../node-removal/plan.ts';

/** Everything that decides about a claim with a tombstone, read from the API server just before. */
export interface Observed {
  readonly claim: Stored<PersistentVolumeClaim>;
  /** The PersistentVolume that the claim names. */
  readonly volume: Stored<PersistentVolume> | undefined;
  /** Static volumes have none. */
  readonly logicalVolume: StoredLogicalVolume | undefined;
  /** The node that has the volume; undefined if there is no such Node. */
  readonly node: Stored<Node> | undefined;
  /** Those that use the claim and have not ended. */
  readonly pods: readonly Stored<Pod>[];
  /** Of the claim. */
  readonly moves: readonly StoredVolumeMove[];
  /** Whether its owner creates the claim again. */
  readonly isRecreated: boolean;
}

/** What is done next for a claim with a tombstone. */
export type Step =
  | { readonly kind: 'nothing' }
  /** The claim stays as it is. */
  | { readonly kind: 'report'; readonly event: EventContent }
  /** The order is carried out or refused: its annotations are removed, so that it cannot have an effect later. */
  | { readonly kind: 'end'; readonly event: EventContent }
  /** The volume is out of reach: its object is deleted, and the disks are not touched. */
  | { readonly kind: 'give-up'; readonly volume: StoredLogicalVolume }
  | { readonly kind: 'delete-claim'; readonly events: readonly EventContent[] }
  /** Without the node's answer if it cannot answer. */
  | { readonly kind: 'delete-pods'; readonly pods: readonly Stored<Pod>[]; readonly isForced: boolean }
  | { readonly kind: 'ask-operator'; readonly nodeName: string }
  /** The order is gone: what it has left must not count for a later one. */
  | { readonly kind: 'withdraw' }
  | { readonly kind: 'move' }
  /** Records the name of the move. */
  | { readonly kind: 'follow'; readonly move: StoredVolumeMove };

const nothing: Step = { kind: 'nothing' };

export function nextStep(seen: Observed): Step {
  const { claim, volume, moves } = seen;
  const order = tombstoneOf(claim);
  if (!order) return hasLeftovers(claim) ? { kind: 'withdraw' } : nothing;
  if (order.kind === 'invalid') return { kind: 'report', event: warning('InvalidTombstone', order.message) };
  const name = claim.spec?.volumeName;
  // Also keeps a StatefulSet with the annotation in its template from an endless loop.
  if (!name) return refuse('this claim has no volume yet');
  const move = moves.find((each) => !isOver(each));
  if (order.word === 'force' && move) {
    const moving = `VolumeMove ${move.metadata.name} moves this claim`;
    return refuse(`${moving}; wait for it, or end it with kubectl moorage abort ${move.metadata.name}`);
  }
  if (!volume) return move ? nothing : refuse(`there is no PersistentVolume ${name}, so there is no data to release`);
  const ours = ourVolume(volume);
  if (!ours) return order.annotation === tombstone.annotations[0] ? notOurs(name) : nothing;
  // Anybody can name the volume of somebody else in a new claim.
  if (volume.spec?.claimRef?.uid !== claim.metadata.uid)
    return refuse(`PersistentVolume ${name} is not bound to this claim`);
  if (order.word === 'force') return stepOfForce(seen, ours);
  const word = policyWord(onDrain.annotation, claim, volume) ?? 'wait';
  const policy = asOnDrain(word);
  if (!policy) return refuse(invalidPolicyText({ ...onDrain, word }));
  if (drainCare[policy].graceful === 'operator') return stepOfDelegation(seen, ours);
  if (ours.handle === undefined) return refuse(`PersistentVolume ${name} is static, and static volumes do not move`);
  return stepOfMove(seen);
}

function stepOfForce(seen: Observed, ours: OurVolume): Step {
  const { claim, logicalVolume } = seen;
  const loss = lossOf(seen, ours);
  const user = userOf(seen);
  if (!loss && user) {
    const confirmed = claim.metadata.annotations?.[tombstone.confirm];
    if (confirmed !== ours.name) {
      const wrong = confirmed === undefined ? '' : ` (${tombstone.confirm} is ${confirmed})`;
      return refuse(
        `the volume is healthy, and pod ${user.metadata.name} uses it${wrong}; to give its data up: ` +
          `kubectl annotate pvc -n ${claim.metadata.namespace} ${claim.metadata.name} ` +
          `${tombstone.annotations[0]}=force ${tombstone.confirm}=${ours.name}`,
      );
    }
  }
  if (loss && logicalVolume && !isGivenUp(logicalVolume) && !ours.isRetained)
    return { kind: 'give-up', volume: logicalVolume };
  const because = loss ? `${loss.reason}, and ` : '';
  const fate = loss && !ours.isRetained ? 'what is left of its data stays on the disks' : fateOf(ours);
  return stepOfRelease(seen, `${because}${orderText(seen)}; ${fate}`, loss?.isNodeSilent ?? false);
}

/** What a person has set: a drain sets `force` itself. */
function orderText({ claim, volume }: Observed): string {
  const drained = claim.metadata.annotations?.[drainedFromAnnotation];
  if (drained === undefined || policyWord(onDrain.annotation, claim, volume) !== 'drop')
    return `${tombstone.annotations[0]} is force`;
  return `${onDrain.annotation} is drop, and node ${drained} is drained`;
}

/** An operator moves its data elsewhere. */
function stepOfDelegation(seen: Observed, ours: OurVolume): Step {
  const { annotations = {} } = seen.claim.metadata;
  if (!annotations[leave.request]) return { kind: 'ask-operator', nodeName: ours.nodeNames?.[0] ?? '' };
  if (!hasLeft(annotations)) {
    const message = `waits until the operator of this claim has moved its data elsewhere, and sets ${leave.acknowledgement}`;
    return { kind: 'report', event: normal('DataLeaving', message) };
  }
  return stepOfRelease(seen, `its operator has moved the data elsewhere; ${fateOf(ours)}`, false);
}

function stepOfRelease({ claim, pods, isRecreated }: Observed, why: string, isNodeSilent: boolean): Step {
  const bare = pods.filter((pod) => pod.spec?.nodeName && isBare(pod)).map(({ metadata }) => metadata.name);
  if (claim.metadata.deletionTimestamp === undefined) {
    const events = [
      warning('ClaimReleased', `deleting this claim: ${why}`),
      ...(isRecreated ? [] : [warning('NotRecreated', 'nothing creates this claim again: create it yourself')]),
      ...bare.map((name) => warning('NotRecreated', `pod ${name} has no owner: nothing creates it again`)),
    ];
    return { kind: 'delete-claim', events };
  }
  // The others were never on a node, and do not keep the claim.
  const left = pods.filter(
    ({ metadata, spec }) => spec?.nodeName && (isNodeSilent || metadata.deletionTimestamp === undefined),
  );
  return left.length > 0 ? { kind: 'delete-pods', pods: left, isForced: isNodeSilent } : nothing;
}

function stepOfMove({ claim, moves }: Observed): Step {
  if (claim.metadata.deletionTimestamp !== undefined) return nothing;
  const name = claim.metadata.annotations?.[tombstone.move];
  if (name === undefined) {
    const move = moves.find((each) => !isOver(each));
    return move ? { kind: 'follow', move } : { kind: 'move' };
  }
  const move = moves.find(({ metadata }) => metadata.name === name);
  if (!move) return refuse(`VolumeMove ${name} was deleted`);
  if (!isOver(move)) return nothing;
  const { targetNode, message } = move.status ?? {};
  if (phaseOf(move) !== 'Done') return refuse(`VolumeMove ${name}: ${message}`);
  return { kind: 'end', event: normal('DataMoved', `VolumeMove ${name} has moved the data to node ${targetNode}`) };
}

/** Why a volume cannot be healthy. */
interface Loss {
  readonly reason: string;
  /** Its node cannot end pods. */
  readonly isNodeSilent: boolean;
}

/** Undefined unless it is certain: a volume that only has not been used counts as healthy. */
function lossOf({ node, logicalVolume }: Observed, { nodeNames = [], handle }: OurVolume): Loss | undefined {
  const name = nodeNames.join(', ');
  if (!node) return { reason: `node ${name} is not in the cluster`, isNodeSilent: true };
  if (!isReady(node)) return { reason: `node ${name} is not Ready`, isNodeSilent: true };
  if (isGone(node)) return { reason: `node ${name} is being removed`, isNodeSilent: false };
  if (handle === undefined) return undefined;
  const isThere = logicalVolume && !logicalVolume.status?.missingFrom && !isMarked(logicalVolume);
  return isThere ? undefined : { reason: `node ${name} has lost the volume`, isNodeSilent: false };
}

function isReady({ status }: Stored<Node>): boolean {
  return (status?.conditions ?? []).some((each) => each.type === 'Ready' && each.status === 'True');
}

function isMarked({ metadata }: Pick<StoredLogicalVolume, 'metadata'>): boolean {
  return metadata.annotations?.[pendingDeletionAnnotation] === 'true';
}

/** Somebody else's finalizer may still keep the object. */
function isGivenUp({ metadata }: StoredLogicalVolume): boolean {
  const { deletionTimestamp, finalizers = [] } = metadata;
  return isMarked({ metadata }) && deletionTimestamp !== undefined && !finalizers.includes(named.finalizer);
}

/** A pod that runs with the volume, or is about to. */
function userOf({ pods, node }: Observed): Stored<Pod> | undefined {
  return pods.find(
    ({ metadata, spec }) => metadata.deletionTimestamp === undefined && spec?.nodeName === node?.metadata.name,
  );
}

function fateOf({ name, handle, isRetained }: OurVolume): string {
  if (isRetained) return `PersistentVolume ${name} is retained`;
  return handle === undefined
    ? `PersistentVolume ${name} stays, and is emptied`
    : 'its volume is removed with its data';
}

function notOurs(name: string): Step {
  const message = `PersistentVolume ${name} is not a volume of Moorage; ${tombstone.annotations[0]} has no effect`;
  return { kind: 'report', event: warning('InvalidTombstone', message) };
}

function refuse(message: string): Step {
  return {
    kind: 'end',
    event: warning('TombstoneRefused', `nothing was done, and the order is withdrawn: ${message}`),
  };
}

function warning(reason: string, message: string): EventContent {
  return { type: 'Warning', reason, action: 'Releasing', message };
}

function normal(reason: string, message: string): EventContent {
  return { type: 'Normal', reason, action: 'Releasing', message };
}
