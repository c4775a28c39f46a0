import type { EngineResults } from './engine-bench.ts';
import type { Figure } from './figures.ts';
import { operations } from './rounds.ts';
import { placeName, places, sideNames } from './side.ts';

/** The results for people. */
export function engineTables({ ratios, figures, memory }: EngineResults): string {
  const rows = places.flatMap((place) =>
    operations.flatMap((operation) => {
      const bySide = figures[placeName(place)]?.[operation];
      return bySide ? [[placeName(place), operation, ...sideNames.map((side) => words(bySide[side]))]] : [];
    }),
  );
  return [
    'Milliseconds: min / median / p95 (samples). thick200 is a thick volume among 200 others.',
    table([['', '', ...sideNames], ...rows]),
    'Medians of moorage as a part of the other side:',
    table(Object.entries(ratios).map(([name, value]) => [name, value.toFixed(3)])),
    `moorage lvmd: ${memory.idleMib} MiB idle, ${memory.halfwayMib} after ${memory.calls / 2} calls, ` +
      `${memory.afterMib} after ${memory.calls}`,
  ].join('\n\n');
}

function words(figure: Figure | undefined): string {
  return figure ? `${figure.min} / ${figure.median} / ${figure.p95} (${figure.samples})` : '-';
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
