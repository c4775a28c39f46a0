import { phaseOf, type VolumeMove } from '../../api/volume-move.ts';
import { isSwitched } from './next-step.ts';

/**
 * Whether a Node that is being deleted must wait for a move: while the PersistentVolume is replaced, the removal would take
 * the claim for one that loses its data, although another node has all of it.
 */
export function isHeldByMove(nodeName: string, move: VolumeMove): boolean {
  const { sourceNode, targetNode, target } = move.status ?? {};
  const phase = phaseOf(move);
  const isTarget = nodeName === targetNode;
  if (phase === 'Committed' || phase === 'Switching') return isTarget || nodeName === sourceNode;
  if (phase === 'Opening') return isTarget && !target?.opened;
  return phase === 'Aborting' && isTarget && isSwitched(move.status ?? {});
}
