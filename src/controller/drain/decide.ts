import { createHash } from 'node:crypto';
import { abortAnnotation, asOnDrain, type OnDrain, onDrain } from '../../api/names.ts';
import { invalidPolicyText } from '../../api/policies.ts';
import { isOver, phaseOf, type StoredVolumeMove } from '../../api/volume-move.ts';
import type { DrainedPod, DrainedVolume } from './drained-pod.ts';

/** What must be done before the pod can be evicted. Each can be done again, by any replica. */
export type Departure =
  | { readonly kind: 'move'; readonly claim: string; readonly name: string }
  /** Sets the tombstone of the claim. The uid: another claim of its name is not retired. */
  | { readonly kind: 'retire'; readonly claim: string; readonly uid: string };

export type Verdict =
  | { readonly kind: 'pass' }
  /** Passes, and gives the volumes up, but only once the API server has granted the eviction. */
  | { readonly kind: 'drop'; readonly volumes: readonly DrainedVolume[] }
  | { readonly kind: 'refuse'; readonly message: string; readonly departures: readonly Departure[] };

const pass: Verdict = { kind: 'pass' };

/** Everything that a policy means. */
interface DrainCare {
  /** The claim with the highest one decides for its pod: data is given up only if no other claim is treated with more care. */
  readonly care: number;
  readonly verdict: (pod: DrainedPod, nowMs: number) => Verdict;
  /** Who takes the data elsewhere when the claim is released gracefully. */
  readonly graceful: 'operator' | 'move';
}

export const drainCare = {
  delegate: { care: 3, verdict: delegated, graceful: 'operator' },
  move: { care: 2, verdict: moved, graceful: 'move' },
  wait: { care: 1, verdict: () => pass, graceful: 'move' },
  drop: { care: 0, verdict: dropped, graceful: 'move' },
} as const satisfies Record<OnDrain, DrainCare>;

/** How long a drain respects that a person has aborted its move; the next drain moves the volume. */
const abortedForMs = 60 * 60_000;
/** How long after a move that failed another one is tried. */
const retryMs = 30_000;

/** Whether a pod can be evicted from a node that is drained. */
export function decide(pod: DrainedPod, nowMs: number): Verdict {
  const found: DrainCare[] = [];
  for (const { claim, policy: word = 'wait' } of pod.volumes) {
    const policy = asOnDrain(word);
    if (!policy) return refuse(`claim ${claim}: ${invalidPolicyText({ ...onDrain, word })}`);
    found.push(drainCare[policy]);
  }
  const [strictest] = found.sort((a, b) => b.care - a.care);
  return strictest?.verdict(pod, nowMs) ?? pass;
}

function refuse(message: string, departures: readonly Departure[] = []): Verdict {
  return { kind: 'refuse', message, departures };
}

function delegated({ volumes }: DrainedPod): Verdict {
  const asked = volumes.filter(({ policy }) => policy === 'delegate');
  // Without a tombstone, an answer is one to an earlier request.
  const staying = asked.filter(({ hasLeft, tombstone }) => tombstone !== 'force' && !(tombstone && hasLeft));
  if (staying.length === 0) return pass;
  const departures = staying.flatMap(({ claim, uid, tombstone }): Departure[] =>
    tombstone === undefined ? [{ kind: 'retire', claim, uid }] : [],
  );
  const states = staying.map(
    ({ claim, leaveState, tombstone }) => `claim ${claim}: ${(tombstone && leaveState) ?? 'its operator is asked'}`,
  );
  return refuse(`waits until operators have moved their data: ${states.join('; ')}`, departures);
}

function dropped({ uid, volumes }: DrainedPod): Verdict {
  // Somebody moves the data: then the pod was evicted by that move, not by the drain.
  if (volumes.some(({ moves }) => moves.some((move) => isActive(move) || hasStopped(move, uid)))) return pass;
  const left = volumes.filter(({ tombstone }) => tombstone !== 'force');
  return left.length > 0 ? { kind: 'drop', volumes: left } : pass;
}

/** A pod runs on one node, so all its volumes move, whatever the policies of the others are. */
function moved({ namespace, uid, volumes }: DrainedPod, nowMs: number): Verdict {
  if (volumes.some(({ moves }) => moves.some((move) => hasStopped(move, uid)))) return pass;
  const fixed = volumes.find(({ handle }) => handle === undefined);
  if (fixed) return refuse(`claim ${fixed.claim} has a static volume, which cannot move${remedy(fixed, namespace)}`);

  const ends = volumes.map((volume) => ({ volume, own: ownMove(volume), active: volume.moves.find(isActive) }));
  if (ends.every(({ active }) => !active) && ends.some(({ own }) => own && isRespected(own, nowMs))) return pass;
  const departures = ends.flatMap(({ volume, own, active }): Departure[] => {
    if (active || (own && !mayReplace(own, nowMs))) return [];
    return [{ kind: 'move', claim: volume.claim, name: moveName(volume) }];
  });
  const states = ends.map(({ volume, own, active }) => stateOf(volume, active ?? own, namespace));
  return refuse(`waits until its volumes have moved: ${states.join('; ')}`, departures);
}

/** Whether the move itself stops, or has stopped, the pod with this uid. */
function hasStopped({ status }: StoredVolumeMove, uid: string): boolean {
  return status?.pods?.some((stopped) => stopped.uid === uid) ?? false;
}

function isActive(move: StoredVolumeMove): boolean {
  return !isOver(move);
}

/** The name of the move that a drain creates. It is the same for all replicas, and another one for the next node. */
export function moveName({ claim, handle = '' }: Pick<DrainedVolume, 'claim' | 'handle'>): string {
  return `drain-${claim.slice(0, 200)}-${createHash('sha256').update(handle).digest('hex').slice(0, 10)}`;
}

function ownMove(volume: DrainedVolume): StoredVolumeMove | undefined {
  const name = moveName(volume);
  return volume.moves.find(({ metadata }) => metadata.name === name);
}

/** Whether a person has aborted it a short time ago. */
function isRespected(move: StoredVolumeMove, nowMs: number): boolean {
  return move.metadata.annotations?.[abortAnnotation] === 'true' && isOver(move) && ageMs(move, nowMs) < abortedForMs;
}

/** Whether a drain may try again, in place of its move. */
export function mayReplace(move: StoredVolumeMove, nowMs: number): boolean {
  const phase = phaseOf(move);
  if ((phase !== 'Failed' && phase !== 'Aborted') || isRespected(move, nowMs)) return false;
  const hasDrainEnded = move.status?.conditions?.some(({ reason }) => reason === 'DrainEnded');
  return hasDrainEnded || ageMs(move, nowMs) >= retryMs;
}

function ageMs({ status }: StoredVolumeMove, nowMs: number): number {
  return status?.completedAt ? nowMs - Date.parse(status.completedAt) : Number.POSITIVE_INFINITY;
}

function stateOf(volume: DrainedVolume, move: StoredVolumeMove | undefined, namespace: string): string {
  const { claim } = volume;
  if (!move) return `claim ${claim}: the move is being created`;
  const { message = '', targetNode, target } = move.status ?? {};
  if (isOver(move)) return `claim ${claim} cannot move: ${message}${remedy(volume, namespace)}`;
  const { round, copiedBytes = 0, totalBytes = 0 } = target ?? {};
  const percent = totalBytes > 0 ? ` ${Math.floor((100 * copiedBytes) / totalBytes)} %` : '';
  const copied = round === undefined ? '' : `, round ${round}${percent}`;
  const to = targetNode ? ` to node ${targetNode}` : '';
  const state = `claim ${claim} moves${to}: ${phaseOf(move)}${copied}${message ? `, ${message}` : ''}`;
  return targetNode ? state : `${state}; to evict its pod without it: kubectl moorage abort ${claim} -n ${namespace}`;
}

function remedy({ claim }: DrainedVolume, namespace: string): string {
  return `; to evict its pod without it: kubectl annotate --overwrite pvc ${claim} -n ${namespace} ${onDrain.annotation}=wait`;
}
