import { bytesOf } from '../../api/logical-volume.ts';
import { isOver, type MovePhase, phaseOf, type StoredVolumeMove } from '../../api/volume-move.ts';
import { formatBytes } from '../../base/quantity.ts';
import {
  age,
  bar,
  byName,
  type Cell,
  type Colour,
  type Column,
  type Format,
  formatted,
  type Terminal,
} from '../terminal.ts';

/** A move as `-o json` shows it. Programs depend on these names. */
export interface MoveRow {
  readonly name: string;
  readonly namespace: string;
  readonly claim: string;
  readonly from?: string;
  readonly to?: string;
  readonly phase: MovePhase;
  readonly sizeBytes?: bigint;
  readonly round?: number;
  readonly copiedBytes?: number;
  readonly totalBytes?: number;
  /** How long no pod could use the volume, once that is known. */
  readonly pauseSeconds?: number;
  readonly message: string;
  readonly createdAt: string;
  readonly isOver: boolean;
}

/** Those that are not over first. */
export function moveRows(moves: readonly StoredVolumeMove[]): readonly MoveRow[] {
  return moves
    .map(moveRow)
    .sort(
      (a, b) => Number(a.isOver) - Number(b.isOver) || byName(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`),
    );
}

export function moveRow(move: StoredVolumeMove): MoveRow {
  const { metadata, spec, status = {} } = move;
  const { sourceNode, targetNode, size, target, stoppedAt, openedAt, message = '' } = status;
  const pauseMs = stoppedAt && openedAt ? Date.parse(openedAt) - Date.parse(stoppedAt) : undefined;
  return {
    name: metadata.name,
    namespace: metadata.namespace ?? '',
    claim: spec.claimName,
    ...(sourceNode && { from: sourceNode }),
    ...(targetNode && { to: targetNode }),
    phase: phaseOf(move),
    ...(size !== undefined && { sizeBytes: bytesOf(size) }),
    ...(target?.round !== undefined && { round: target.round }),
    ...(target?.copiedBytes !== undefined && { copiedBytes: target.copiedBytes }),
    ...(target?.totalBytes !== undefined && { totalBytes: target.totalBytes }),
    ...(pauseMs !== undefined && { pauseSeconds: pauseMs / 1000 }),
    message,
    createdAt: metadata.creationTimestamp,
    isOver: isOver(move),
  };
}

const colours: Readonly<Partial<Record<MovePhase, Colour>>> = {
  Done: 'green',
  Aborting: 'red',
  Aborted: 'red',
  Failed: 'red',
};

/** The bar, its percentage, and the sign that the rest is cut off. */
const progressWidth = '████░░░░  50%…'.length;

export function moveTable(
  rows: readonly MoveRow[],
  { format, allNamespaces, nowMs }: { format: Format; allNamespaces: boolean; nowMs: number },
  terminal: Terminal,
): string {
  const columns: readonly Column<MoveRow>[] = [
    ...(allNamespaces ? [{ title: 'NAMESPACE', cell: ({ namespace }: MoveRow) => namespace, atLeast: 8 }] : []),
    { title: 'CLAIM', cell: ({ claim }) => claim, atLeast: 12 },
    { title: 'FROM', cell: ({ from = '-' }) => from, atLeast: 6 },
    { title: 'TO', cell: ({ to = '-' }) => to, atLeast: 6 },
    {
      title: 'SIZE',
      cell: ({ sizeBytes }) => (sizeBytes === undefined ? '-' : formatBytes(sizeBytes)),
      isOptional: true,
    },
    { title: 'PHASE', cell: ({ phase }): Cell => ({ text: phase, colour: colours[phase] ?? 'yellow' }) },
    { title: 'PROGRESS', cell: progressCell, atLeast: progressWidth, isSentence: true },
    {
      title: 'PAUSE',
      cell: ({ pauseSeconds }) => (pauseSeconds === undefined ? '' : `${Math.round(pauseSeconds)}s`),
      isOptional: true,
    },
    { title: 'AGE', cell: ({ createdAt }) => age(createdAt, nowMs), isOptional: true },
    { title: 'MOVE', cell: ({ name }) => name, wide: true },
    { title: 'MESSAGE', cell: ({ message }) => message, atLeast: 12, isSentence: true },
  ];
  return formatted(columns, rows, format, terminal);
}

/** The first round copies everything; later ones what has changed since, so their bar starts again. */
function progressCell({ phase, round, copiedBytes, totalBytes }: MoveRow): Cell {
  if (phase === 'Done') return { text: `${bar(1)} 100%`, colour: 'green' };
  if (phase !== 'Copying' && phase !== 'Stopping' && phase !== 'Freezing') return { text: '' };
  if (round === undefined || copiedBytes === undefined || totalBytes === undefined) return { text: bar(0) };
  const share = totalBytes === 0 ? 1 : copiedBytes / totalBytes;
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  return {
    text: `${bar(share)} ${percent} of ${formatBytes(BigInt(totalBytes))}${round > 1 ? `, round ${round}` : ''}`,
  };
}
