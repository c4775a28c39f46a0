import { isUnwanted, phaseOf } from '../api/volume-move.ts';
import { formatBytes } from '../base/quantity.ts';
import type { Finding } from './explanation.ts';
import type { Claim, Known } from './known.ts';

/** The move of a claim's volume that is under way. */
export function moveReason(claim: Claim, known: Known): Finding | undefined {
  const move = known.moveOf(claim);
  if (!move) return undefined;
  const { sourceNode, targetNode, message, target } = move.status ?? {};
  const way = `${sourceNode ? ` from node ${sourceNode}` : ''}${targetNode ? ` to node ${targetNode}` : ''}`;
  const { copiedBytes, totalBytes } = target ?? {};
  const progress =
    copiedBytes !== undefined && totalBytes
      ? `, ${Math.floor((copiedBytes / totalBytes) * 100)} % of ${formatBytes(BigInt(totalBytes))}`
      : '';
  return {
    code: 'Moving',
    cause: `its volume ${isUnwanted(move) ? 'goes back after a move' : 'moves'}${way} (${phaseOf(move)}${progress})`,
    evidence: [`VolumeMove ${move.metadata.name}: ${phaseOf(move)}${message ? `: ${message}` : ''}`],
    remedy: [`kubectl moorage moves -n ${move.metadata.namespace} --watch`],
  };
}
