export type Operation = 'create' | 'grow' | 'snapshot' | 'restore' | 'remove' | 'erase';

/** Each round runs one operation on volume after volume until the power is cut. */
export interface Round {
  readonly operation: Operation;
  readonly pool: 'thick' | 'thin' | 'file' | 'erased';
  /** From the first request to the power cut. A request takes 10 to 100 ms here, an erasure some hundred. */
  readonly delayMs: number;
}

const delaysMs = { thick: [0, 35, 90], thin: [0, 35, 90], file: [20, 120] };
const restoreDelaysMs = [40, 120, 300];
const eraseDelaysMs = [0, 60, 150, 300];

export const rounds: readonly Round[] = [
  ...(['create', 'grow', 'snapshot', 'remove'] as const).flatMap((operation) =>
    (['thick', 'thin', 'file'] as const).flatMap((pool) =>
      delaysMs[pool].map((delayMs) => ({ operation, pool, delayMs })),
    ),
  ),
  ...restoreDelaysMs.map((delayMs): Round => ({ operation: 'restore', pool: 'thick', delayMs })),
  ...eraseDelaysMs.map((delayMs): Round => ({ operation: 'erase', pool: 'erased', delayMs })),
];

/** The volumes of a round. */
export function volumesOf(round: number, { operation }: Round): string[] {
  const count = operation === 'erase' ? 1 : 4;
  return Array.from({ length: count }, (_, index) => `round${round}-${index}`);
}
