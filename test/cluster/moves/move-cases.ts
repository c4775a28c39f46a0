import type { MovePhase, StoredVolumeMove, VolumeMoveStatus } from '../../../src/api/volume-move.ts';
import { type Hold, heldMessage } from './holds.ts';

/** The phases in which something can fail; of an abort, the way back from the last phase that has one. */
export const phases = [
  'Pending',
  'Copying',
  'Stopping',
  'Freezing',
  'Committed',
  'Switching',
  'Opening',
  'Cleaning',
  'Aborting',
] as const satisfies readonly MovePhase[];
export type FaultyPhase = (typeof phases)[number];

export const victims = [
  'source agent',
  'target agent',
  'controller',
  'API server',
  'source node',
  'target node',
] as const;
export type Victim = (typeof victims)[number];

export const volumeKinds = ['thick', 'thin', 'file', 'encrypted'] as const;
export type VolumeKind = (typeof volumeKinds)[number];

/** A move during which something is killed, at a certain point. */
export interface MoveCase {
  readonly phase: FaultyPhase;
  readonly victim: Victim;
  readonly volume: VolumeKind;
}

const turns: readonly VolumeKind[] = ['thick', 'thin', 'file', 'thick', 'thin', 'encrypted'];

/** Every phase with every victim. The kinds of volumes take turns, so that each phase and each victim has all of them. */
export function allCases(): readonly MoveCase[] {
  return phases.flatMap((phase, row) =>
    victims.map((victim, column) => ({ phase, victim, volume: turns[(row + column) % turns.length] ?? 'thick' })),
  );
}

/** Its name on the command line. */
export function nameOf({ phase, victim }: Pick<MoveCase, 'phase' | 'victim'>): string {
  return `${phase} ${victim}`.toLowerCase().replaceAll(' ', '-');
}

export function expectedEnd({ phase }: MoveCase): 'Done' | 'Aborted' {
  return phase === 'Aborting' ? 'Aborted' : 'Done';
}

/** Which answers each end has to give in a phase. */
const answering: Readonly<Partial<Record<MovePhase, readonly Hold['end'][]>>> = {
  Stopping: ['source'],
  Freezing: ['source', 'target'],
  Opening: ['target'],
  Cleaning: ['source'],
  Aborting: ['source'],
};

/**
 * The hold of a case: the process or node that dies has done its work of the phase, but has not recorded it. Others may
 * have; only the phase does not end.
 */
export function holdFor({ phase, victim }: MoveCase): Hold {
  const end = victim.startsWith('source') ? 'source' : victim.startsWith('target') ? 'target' : undefined;
  if (phase === 'Copying') return { phase, end: 'target' }; // so that it does not converge
  return answering[phase]?.includes(end) ? { phase, end } : { phase };
}

/** Whether a held move is where something is to be killed. */
export function isHeldAt({ phase, end }: Hold, { status = {} }: StoredVolumeMove): boolean {
  if ((status.phase ?? 'Pending') !== phase) return false;
  if (phase === 'Copying') return isAmidRound(status);
  if (end) return status[end]?.message?.includes(heldMessage) ?? false;
  if (phase === 'Stopping') return status.stoppedAt !== undefined;
  if (phase === 'Freezing') return status.target?.verdict !== undefined;
  if (phase === 'Opening') return status.target?.opened ?? false;
  if (phase === 'Cleaning' || phase === 'Aborting') return status.source?.released ?? false;
  return true;
}

function isAmidRound({ target }: VolumeMoveStatus): boolean {
  const { copiedBytes = 0, totalBytes = 0 } = target ?? {};
  return copiedBytes > 0 && copiedBytes < totalBytes;
}
