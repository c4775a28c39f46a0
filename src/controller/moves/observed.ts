import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import { claimOfMove, isOver, isSourceOf, type StoredVolumeMove } from '../../api/volume-move.ts';
import {
  claimNamesOf,
  type Node,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type Stored,
} from '../../kube/resource.ts';

/** Everything that decides the next step of a move, read from the API server just before. */
export interface Observed {
  /** How long ago the move was created. */
  readonly ageMs: number;
  /** That of the move's name and namespace; it may have another uid than the one that is moved. */
  readonly claim: Stored<PersistentVolumeClaim> | undefined;
  readonly volume: Stored<PersistentVolume> | undefined;
  /** Those that use the claim and have not ended. */
  readonly pods: readonly Stored<Pod>[];
  /** Other claims of the same pods whose volumes are on certain nodes. */
  readonly pinned: readonly PinnedClaim[];
  readonly source: StoredLogicalVolume | undefined;
  readonly target: StoredLogicalVolume | undefined;
  /** The names of the snapshots of the source. */
  readonly snapshots: readonly string[];
  /** Undefined if there is no such node, or none is chosen yet. */
  readonly sourceNode: Stored<Node> | undefined;
  readonly targetNode: Stored<Node> | undefined;
  /** To choose from; empty once a target is chosen. */
  readonly nodes: readonly Stored<Node>[];
  /** Other moves that are not over. */
  readonly others: readonly StoredVolumeMove[];
  /** Moves of other volumes of the same pods, over or not, once the pods are about to be stopped. */
  readonly partners: readonly Partner[];
}

/** A move of another volume of the same pods. */
export interface Partner {
  readonly name: string;
  /** Undefined if it was deleted: a move that is deleted before it is committed is aborted. */
  readonly move: StoredVolumeMove | undefined;
}

/** A claim that a pod needs, too, and that only certain nodes can have. */
export interface PinnedClaim {
  /** `namespace/name`. */
  readonly claim: string;
  readonly pod: string;
  readonly nodeNames: readonly string[];
  readonly sizeBytes: bigint;
  /** Undefined for a volume of another driver. */
  readonly deviceClass: string | undefined;
}

/** Otherwise the agents do nothing with the source, and nothing has to be undone or removed. */
export function isSourceMarked(move: StoredVolumeMove, { source }: Observed): boolean {
  return source !== undefined && isSourceOf(move, source);
}

/** Whether the pod may still use its volumes. */
export function isAlive({ status }: Pod): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

/** Whether nothing would start the pod again. */
export function isBare({ metadata }: Pod): boolean {
  return !metadata?.ownerReferences?.some(({ controller }) => controller);
}

export function podsOf(claimName: string, pods: readonly Stored<Pod>[]): readonly Stored<Pod>[] {
  return pods.filter((pod) => isAlive(pod) && claimNamesOf(pod).includes(claimName));
}

/** Moves of other claims of the same pods: they stop the pods together. */
export function siblingsIn({ pinned, others }: Observed): readonly StoredVolumeMove[] {
  const claims = new Set(pinned.map(({ claim }) => claim));
  return others.filter((move) => !isOver(move) && claims.has(claimOfMove(move)));
}
