import { localPvFinalizer } from '../../api/local-pv.ts';
import { currentBytes, deleting, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { drainedFromAnnotation, driverName, topologyKey } from '../../api/names.ts';
import { cannotBegin, claimOfMove, isUnwanted, type StoredVolumeMove } from '../../api/volume-move.ts';
import { toQuantity } from '../../base/quantity.ts';
import { affinityValues, type PersistentVolume, type PersistentVolumeClaim, type Stored } from '../../kube/resource.ts';
import { chooseTarget } from '../../moves/choose-target.ts';
import { annotatedNode, freeBytesOf } from '../capacity/annotated-capacities.ts';
import { isDraining } from '../drain/drained-objects.ts';
import { isGone } from '../node-removal/node-removal.ts';
import { type Observed, siblingsIn } from './observed.ts';
import { barePods, isResizing, type Obstacle, pinnedElsewhere } from './obstacles.ts';
import { handleOf } from './persistent-volume-switch.ts';
import { isAtWork, otherAtWork } from './turns.ts';

/** What is moved from where to where. It is recorded before the first change. */
export interface MovePlan {
  readonly claimUID: string;
  readonly persistentVolume: string;
  readonly sourceNode: string;
  readonly sourceVolume: string;
  readonly targetNode: string;
  readonly targetVolume: string;
  readonly size: string;
}

export type Planning =
  | { readonly kind: 'plan'; readonly plan: MovePlan }
  /** It is another move's turn, or something may pass, perhaps within a known time. */
  | { readonly kind: 'wait'; readonly message: string; readonly forMs?: number }
  | ({ readonly kind: 'refuse' } & Obstacle)
  | ({ readonly kind: 'abort' } & Obstacle);

/** Refusals that may pass: more room, or the end of a resize. */
const passing: ReadonlySet<string> = new Set([
  'NotBound',
  'ResizeInProgress',
  'BarePod',
  'PodHasOtherVolumes',
  'NoTarget',
]);

/** The moves of the volumes of one pod are created one after the other. */
const siblingsAppearMs = 10_000;

/** Whether and where a move can begin. Nothing was changed for it yet. */
export function planMove(move: StoredVolumeMove, seen: Observed): Planning {
  const planning = planNow(move, seen);
  if (planning.kind !== 'refuse') return planning;
  const waiting = { kind: 'wait', message: `${cannotBegin}${planning.message}` } as const;
  if (move.spec.patient && passing.has(planning.reason)) return waiting;
  const forMs = planning.reason === 'PodHasOtherVolumes' ? siblingsAppearMs - seen.ageMs : 0;
  return forMs > 0 ? { ...waiting, forMs } : planning;
}

function planNow(move: StoredVolumeMove, seen: Observed): Planning {
  if (isUnwanted(move)) return { kind: 'abort', reason: 'Requested', message: 'it was aborted before it began' };
  const ended = drainEnded(move, seen);
  if (ended) return { kind: 'refuse', ...ended };
  const movable = movableVolume(move, seen);
  if ('reason' in movable) return { kind: 'refuse', ...movable };
  const { source, volume, claim, sourceNode } = movable;
  const obstacle = barePods(move, seen) ?? pinnedElsewhere(undefined, seen);
  if (obstacle) return { kind: 'refuse', ...obstacle };

  const siblings = siblingsIn(seen);
  const atWork = seen.others.filter((other) => isAtWork(other) && !siblings.includes(other));
  const ahead = otherAtWork(atWork, [sourceNode]);
  if (ahead) return { kind: 'wait', message: ahead };

  const together = siblings.find(({ status }) => status?.targetNode)?.status?.targetNode;
  const bytes = new Map([[source.spec.deviceClass ?? '', currentBytes(source)]]);
  for (const { claim: other, deviceClass, sizeBytes } of seen.pinned) {
    if (deviceClass === undefined || isPlanned(other, siblings)) continue;
    bytes.set(deviceClass, (bytes.get(deviceClass) ?? 0n) + sizeBytes);
  }
  const choice = chooseTarget(
    {
      sourceNode,
      targetNode: move.spec.targetNode ?? together,
      bytes,
      pods: seen.pods,
      busy: new Set(atWork.flatMap(({ status }) => [status?.sourceNode ?? '', status?.targetNode ?? ''])),
      freeBytes: (node, deviceClass) => freeBytesOf(annotatedNode(node), deviceClass),
    },
    seen.nodes,
  );
  if (choice.kind === 'none') return { kind: 'refuse', reason: 'NoTarget', message: choice.reason };
  if (choice.kind === 'busy') {
    const names = choice.names.join(', ');
    return { kind: 'wait', message: `waits for another move to or from node ${names}` };
  }
  const apart = pinnedElsewhere(choice.name, seen);
  if (apart) return { kind: 'refuse', ...apart };
  return {
    kind: 'plan',
    plan: {
      claimUID: claim.metadata.uid,
      persistentVolume: volume.metadata.name,
      sourceNode,
      sourceVolume: source.metadata.name,
      targetNode: choice.name,
      targetVolume: `${volume.metadata.name}-${move.metadata.uid.slice(0, 8)}`,
      size: toQuantity(currentBytes(source)),
    },
  };
}

/** A move that a drain has created, and that has not begun when the drain is over, must not begin later. */
function drainEnded({ metadata }: StoredVolumeMove, { source, sourceNode }: Observed): Obstacle | undefined {
  const name = metadata.annotations?.[drainedFromAnnotation];
  if (name === undefined || !source || !sourceNode) return undefined;
  if (source.spec.nodeName === name && isDraining(sourceNode)) return undefined;
  return { reason: 'DrainEnded', message: `node ${name} is no longer drained` };
}

interface MovableVolume {
  readonly claim: Stored<PersistentVolumeClaim>;
  readonly volume: Stored<PersistentVolume>;
  readonly source: StoredLogicalVolume;
  readonly sourceNode: string;
}

function movableVolume(move: StoredVolumeMove, seen: Observed): MovableVolume | Obstacle {
  const { claim, volume, source } = seen;
  const name = claimOfMove(move);
  const earlier = seen.others.find((other) => claimOfMove(other) === name && isEarlier(other, move));
  if (earlier) {
    const message = `VolumeMove ${earlier.metadata.name} moves this claim already; wait for it, or abort it`;
    return { reason: 'MovedAlready', message };
  }
  if (!claim || claim.metadata.deletionTimestamp) return { reason: 'NoClaim', message: `there is no claim ${name}` };
  if (claim.status?.phase !== 'Bound' || !volume || volume.status?.phase !== 'Bound') {
    return { reason: 'NotBound', message: `claim ${name} is not bound to a volume` };
  }
  // A claim names a PersistentVolume; only the PersistentVolume says whose it is.
  if (volume.spec?.claimRef?.uid !== claim.metadata.uid) {
    const message = `PersistentVolume ${volume.metadata.name} is not bound to claim ${name}, although the claim names it`;
    return { reason: 'NotBound', message };
  }
  if (volume.metadata.finalizers?.includes(localPvFinalizer)) {
    const message = `PersistentVolume ${volume.metadata.name} of claim ${name} is static, and static volumes do not move`;
    return { reason: 'StaticVolume', message };
  }
  if (volume.spec?.csi?.driver !== driverName) {
    return { reason: 'NotOurs', message: `the volume of claim ${name} is not of the driver ${driverName}` };
  }
  const [sourceNode, ...others] = affinityValues(volume, topologyKey) ?? [];
  const isFound = source && source.spec.nodeName === sourceNode && volumeIdOf(source) === handleOf(volume);
  if (!sourceNode || others.length > 0 || !isFound || deleting(source) || source.status?.missingFrom) {
    const message = `the volume of claim ${name} is not where PersistentVolume ${volume.metadata.name} says; see kubectl moorage orphans`;
    return { reason: 'SourceLost', message };
  }
  if (isGone(seen.sourceNode)) {
    return { reason: 'SourceNodeGone', message: `node ${sourceNode}, which has the volume, was removed` };
  }
  if (isResizing(claim, source)) {
    return { reason: 'ResizeInProgress', message: 'the volume is being resized; move it when that is done' };
  }
  return { claim, volume, source, sourceNode };
}

/** By time and name, so that of two moves exactly one is the earlier. */
function isEarlier({ metadata: one }: StoredVolumeMove, { metadata: other }: StoredVolumeMove): boolean {
  const keyOf = ({ creationTimestamp, name }: StoredVolumeMove['metadata']) => `${creationTimestamp} ${name}`;
  return keyOf(one) < keyOf(other);
}

function isPlanned(claim: string, siblings: readonly StoredVolumeMove[]): boolean {
  return siblings.some((move) => claimOfMove(move) === claim && move.status?.targetNode !== undefined);
}
