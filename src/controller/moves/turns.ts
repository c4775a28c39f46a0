import { isCopy, isOver, phaseOf, type StoredVolumeMove, type VolumeMoveStatus } from '../../api/volume-move.ts';
import type { Step } from './next-step.ts';

/**
 * Whether it loads its nodes: it is planned, and more than the source is left to do. What a copy has left on its source
 * would be in the way of the next one.
 */
export function isAtWork(move: StoredVolumeMove): boolean {
  return move.status?.sourceNode !== undefined && !isOver(move) && (isCopy(move) || phaseOf(move) !== 'Cleaning');
}

/** Which move or copy has its turn on one of these nodes, in words. */
export function otherAtWork(others: readonly StoredVolumeMove[], nodeNames: readonly string[]): string | undefined {
  for (const { metadata, status } of others.filter(isAtWork)) {
    const node = nodeNames.find((name) => name === status?.sourceNode || name === status?.targetNode);
    if (node) {
      return `waits for VolumeMove ${metadata.namespace}/${metadata.name}, because node ${node} has one move at a time`;
    }
  }
  return undefined;
}

/** Waits, and says what an agent reports. */
export function waitForAgents({ source, target }: VolumeMoveStatus, message: string): Step {
  const problem = source?.message || target?.message;
  return { kind: 'wait', message: problem ? `${message}; ${problem}` : message };
}
