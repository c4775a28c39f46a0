import type { ObjectOf } from './crd/crd.ts';
import type { volumeMoveCrd } from './crd/volume-move.ts';
import type { StoredLogicalVolume } from './logical-volume.ts';
import { abortAnnotation, moveAnnotation, sourceMark, volumeMove } from './names.ts';
import type { Resource, Stored } from './object.ts';

/**
 * The phases of a move, in order. Until `Committed` it can be aborted and leaves everything as it was; from then on it goes
 * forward, unless the target is lost before it was opened.
 */
export const movePhases = [
  /** Waits for its turn, or for the volume on the target node. */
  'Pending',
  /** Copies while the pods run, round by round. */
  'Copying',
  /** The pods are stopped, and the volume cannot be staged any more. */
  'Stopping',
  /** The volume is closed and read-only, and the last round is copied. */
  'Freezing',
  /** The target has all data, and the PersistentVolume is saved in the move. */
  'Committed',
  /** The PersistentVolume is replaced. */
  'Switching',
  /** The volume becomes usable on the target node. */
  'Opening',
  /** The source is removed. */
  'Cleaning',
  'Done',
  /** Everything becomes as it was. */
  'Aborting',
  'Aborted',
  /** It was refused, and nothing was changed. */
  'Failed',
] as const;

export type MovePhase = (typeof movePhases)[number];

/** A volume that moves, or is copied, to another node with its data. The fields are in its CRD. */
export type VolumeMove = ObjectOf<typeof volumeMoveCrd>;
export type VolumeMoveStatus = NonNullable<VolumeMove['status']>;
export type StoredVolumeMove = Stored<VolumeMove>;

export const volumeMoves: Resource<VolumeMove> = {
  group: volumeMove.group,
  version: volumeMove.version,
  plural: volumeMove.plural,
  kind: volumeMove.kind,
  namespaced: true,
};

/** The API server completes the name. */
export function newVolumeMove(namespace: string, spec: VolumeMove['spec']): VolumeMove {
  return { metadata: { generateName: `${spec.claimName.slice(0, 200)}-`, namespace }, spec };
}

export function phaseOf({ status }: VolumeMove): MovePhase {
  return status?.phase ?? 'Pending';
}

export function isOver(move: VolumeMove): boolean {
  return ['Done', 'Aborted', 'Failed'].includes(phaseOf(move));
}

/** How the message of a patient move begins while it cannot begin; then comes why. */
export const cannotBegin = 'cannot begin yet: ';

/** Whether somebody wants to end it. */
export function isUnwanted({ metadata }: VolumeMove): boolean {
  return metadata?.deletionTimestamp !== undefined || metadata?.annotations?.[abortAnnotation] === 'true';
}

/** Whether it fills a new volume from a source on another node, and moves nothing. */
export function isCopy({ spec }: VolumeMove): boolean {
  return spec.fill !== undefined;
}

/**
 * Whether the controller has verified that this is the volume to move, or to copy. Only then may an agent act on it: the
 * volume that the status of a move names may be somebody else's.
 */
export function isSourceOf({ metadata }: StoredVolumeMove, volume: StoredLogicalVolume): boolean {
  return volume.metadata.annotations?.[sourceMark(metadata.uid)] !== undefined;
}

/** Whether the controller has created it for this move, and it does not have all data yet. */
export function isTargetOf({ metadata }: StoredVolumeMove, volume: StoredLogicalVolume): boolean {
  return volume.metadata.annotations?.[moveAnnotation] === metadata.uid;
}

/** `namespace/name` of its claim. */
export function claimOfMove({ metadata, spec }: VolumeMove): string {
  return `${metadata?.namespace}/${spec.claimName}`;
}
