import { claimOfMove, isCopy, type StoredVolumeMove } from '../../api/volume-move.ts';
import type { ClaimOnDrain, PodOnNode, VolumeOnDrain } from './drained-objects.ts';

/** A volume on the node that the pod is evicted from. */
export interface DrainedVolume extends ClaimOnDrain {
  /** The name of its claim. */
  readonly claim: string;
  /** CSI's volume ID; undefined for a static volume. */
  readonly handle: string | undefined;
  /** All moves of the claim, also those that are over. */
  readonly moves: readonly StoredVolumeMove[];
}

/** A pod that may have to leave its node. */
export type DrainingPod = Pick<PodOnNode, 'namespace' | 'uid' | 'nodeName' | 'claimNames'>;

/** A pod that somebody wants to evict, with its volumes of ours on its node. */
export interface DrainedPod {
  readonly namespace: string;
  readonly uid: string;
  readonly nodeName: string;
  readonly volumes: readonly DrainedVolume[];
}

/** Where the objects around a pod come from: a cache, or the API server. */
interface Context {
  readonly isDraining: boolean;
  /** By its name. */
  readonly claim: (name: string) => ClaimOnDrain | undefined;
  readonly volume: (name: string) => VolumeOnDrain | undefined;
  readonly moves: readonly StoredVolumeMove[];
}

/** Undefined if its node is not drained, or if it has no volume of ours there. */
export function drainedPod(
  { namespace, uid, nodeName, claimNames }: DrainingPod,
  { isDraining, claim: claimOf, volume: volumeOf, moves }: Context,
): DrainedPod | undefined {
  if (!isDraining) return undefined;
  const volumes = claimNames.flatMap((claim): DrainedVolume[] => {
    const known = claimOf(claim);
    const volume = known && volumeOf(known.volumeName);
    if (!known || !volume?.nodeNames.includes(nodeName)) return [];
    const own = moves.filter((move) => claimOfMove(move) === `${namespace}/${claim}` && !isCopy(move));
    return [{ ...known, claim, policy: known.policy ?? volume.policy, handle: volume.handle, moves: own }];
  });
  return volumes.length > 0 ? { namespace, uid, nodeName, volumes } : undefined;
}
