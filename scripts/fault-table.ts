import { type MoveCase, phases, type VolumeKind, victims } from '../test/cluster/moves/move-cases.ts';

/** The result of one case, as the table shows it. */
export type CaseResult = { readonly volume: VolumeKind } & (
  | { readonly end: 'Done' | 'Aborted'; readonly pauseSeconds: number }
  | { readonly red: string }
);

const [begin, end] = ['<!-- begin: npm run test:moves -->', '<!-- end -->'];

/** The page with these results in its table; cells of cases that did not run stay as they are. */
export function withResults(page: string, results: readonly (readonly [MoveCase, CaseResult])[]): string {
  const [before, rest] = page.split(begin);
  const [table, after] = rest?.split(end) ?? [];
  if (before === undefined || table === undefined || after === undefined) {
    throw new Error(`the page needs the lines ${begin} and ${end} around its table`);
  }
  const known = cellsIn(table);
  for (const [{ phase, victim }, result] of results) known.set(`${phase} ${victim}`, cellOf(result));
  const rows = phases.map((phase) => [phase, ...victims.map((victim) => known.get(`${phase} ${victim}`) ?? '')]);
  const lines = [['phase', ...victims], ['---', ...victims.map(() => '---')], ...rows].map(
    (cells) => `| ${cells.join(' | ')} |`,
  );
  return `${before}${begin}\n${lines.join('\n')}\n${end}${after}`;
}

function cellsIn(table: string): Map<string, string> {
  const rows = table
    .trim()
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  return new Map(
    rows.flatMap(([phase, ...cells]) => cells.map((cell, column) => [`${phase} ${victims[column]}`, cell] as const)),
  );
}

function cellOf(result: CaseResult): string {
  if ('red' in result) return `**red**, ${result.volume}`;
  return `${result.end}, ${result.volume}, ${result.pauseSeconds} s`;
}
