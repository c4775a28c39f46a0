import type { Statistics } from '../statistics.ts';
import { table } from '../table.ts';
import type { EngineResults } from './engine-bench.ts';
import { operations } from './rounds.ts';
import { placeName, places, sideNames } from './side.ts';

/** The results as tables. */
export function engineTables({ ratios, figures: measurements, memory }: EngineResults): string {
  const rows = places.flatMap((place) =>
    operations.flatMap((operation) => {
      const bySide = measurements[placeName(place)]?.[operation];
      return bySide ? [[placeName(place), operation, ...sideNames.map((side) => words(bySide[side]))]] : [];
    }),
  );
  return [
    'Milliseconds: min / median / p95 (samples). thick200 is a thick volume among 200 others.',
    table([['', '', ...sideNames], ...rows]),
    'Medians of moorage as a part of the other side:',
    table(Object.entries(ratios).map(([name, value]) => [name, value.toFixed(3)])),
    `moorage lvmd: ${memory.idleMib} MiB idle; after each thousand calls: ${memory.afterThousandsMib.join(', ')}`,
  ].join('\n\n');
}

function words(statistics: Statistics | undefined): string {
  return statistics ? `${statistics.min} / ${statistics.median} / ${statistics.p95} (${statistics.samples})` : '-';
}
