import { logicalVolumes } from '../../api/logical-volume.ts';
import { claimOfMove, isCopy, isOver, volumeMoves } from '../../api/volume-move.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/quantity.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes, persistentVolumes, pods, type Stored } from '../../kube/resource.ts';
import { type Column, count, paint, type Terminal, table } from '../terminal.ts';
import { type EvacuationPlan, type PlannedMove, planEvacuation, type Staying } from './evacuation-plan.ts';

export interface EvacuationRequest {
  readonly nodeName: string;
  readonly targetNode: string | undefined;
  readonly stopBarePods: boolean;
}

export async function readEvacuation(
  client: KubeClient,
  request: EvacuationRequest,
  signal: AbortSignal,
): Promise<EvacuationPlan> {
  const fieldSelector = `spec.nodeName=${request.nodeName}`;
  const [nodeList, volumes, persistent, podList, moves] = await Promise.all([
    client.list(nodes, { signal }),
    client.list(logicalVolumes, { fieldSelector, signal }),
    client.list(persistentVolumes, { signal }),
    client.list(pods, { signal }),
    client.list(volumeMoves, { signal }),
  ]);
  refuseUnknownNodes(request, nodeList.items);
  return planEvacuation({
    ...request,
    nodes: nodeList.items,
    volumes: volumes.items,
    persistentVolumes: persistent.items,
    pods: podList.items,
    moving: new Set(moves.items.filter((move) => !isOver(move) && !isCopy(move)).map(claimOfMove)),
  });
}

/** A target that is wrong would only be the reason of each volume to stay. */
export function refuseUnknownNodes({ nodeName, targetNode }: EvacuationRequest, known: readonly Stored<Node>[]): void {
  for (const name of [nodeName, targetNode]) {
    if (name !== undefined && !known.some(({ metadata }) => metadata.name === name)) {
      throw new NoSuchNode(`there is no node ${name}; see kubectl get nodes`);
    }
  }
  if (targetNode === nodeName) throw new InvalidInput(`node ${nodeName} is to be emptied; name another one to move to`);
}

/** About what a gigabit network carries: an estimate. */
export const assumedBytesPerSecond = 100n * 1024n ** 2n;

export function evacuationScreen(
  nodeName: string,
  { moves, staying, totalBytes }: EvacuationPlan,
  rateLimit: bigint | undefined,
  terminal: Terminal,
): string {
  if (moves.length === 0 && staying.length === 0) return `node ${nodeName} has no volumes`;
  const rate = rateLimit ?? assumedBytesPerSecond;
  const columns: readonly Column<PlannedMove>[] = [
    { title: 'CLAIM', cell: ({ namespace, claim }) => `${namespace}/${claim}`, atLeast: 12 },
    { title: 'TO', cell: ({ to }) => to, atLeast: 6 },
    { title: 'SIZE', cell: ({ sizeBytes }) => formatBytes(sizeBytes) },
    { title: 'COPY', cell: ({ sizeBytes }) => `≤ ${duration(sizeBytes, rate)}` },
    {
      title: 'PAUSE',
      cell: ({ pods, stopSeconds }) => (pods.length > 0 ? `≤ ${stopSeconds}s to stop + seconds` : 'none'),
      atLeast: 14,
      isSentence: true,
    },
    { title: 'PODS', cell: ({ pods }) => pods.join(', '), atLeast: 8 },
    { title: 'STAYS BEHIND', cell: ({ snapshots }) => snapshots.join(', '), atLeast: 8 },
  ];
  const left: readonly Column<Staying>[] = [
    { title: 'NOT MOVED', cell: ({ what }) => what, atLeast: 16 },
    { title: 'SIZE', cell: ({ sizeBytes }) => (sizeBytes > 0n ? formatBytes(sizeBytes) : '') },
    {
      title: 'DATA',
      cell: ({ isLost }) => (isLost ? { text: 'lost', colour: 'red' } : { text: 'stays', colour: 'yellow' }),
    },
    { title: 'REASON', cell: ({ reason }) => reason, atLeast: 12, isSentence: true },
  ];
  const fits =
    moves.length > 0
      ? `${count(moves.length, 'volume')} ${moves.length === 1 ? 'fits' : 'fit'}`
      : 'Nothing can be moved';
  const total =
    moves.length > 0
      ? `: ${formatBytes(totalBytes)}, one after the other, at most ${duration(totalBytes, rate)} at ${formatBytes(rate)}/s.`
      : '.';
  return [
    ...(moves.length > 0 ? [table(columns, moves, terminal), ''] : []),
    ...(staying.length > 0 ? [table(left, staying, terminal), ''] : []),
    `${paint({ text: fits, colour: staying.length > 0 ? 'yellow' : 'green' }, terminal)}${total}`,
  ].join('\n');
}

/** Holes and unused blocks are not copied, so it is an upper bound. */
function duration(bytes: bigint, bytesPerSecond: bigint): string {
  const seconds = Number((bytes + bytesPerSecond - 1n) / bytesPerSecond);
  if (seconds < 120) return `${seconds}s`;
  return seconds < 7200 ? `${Math.ceil(seconds / 60)}m` : `${Math.ceil(seconds / 3600)}h`;
}

class NoSuchNode extends MoorageError {
  readonly code = 'NotFound';
}
