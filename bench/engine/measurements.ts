import { type Statistics, statisticsOf } from '../statistics.ts';
import type { Operation, Sample } from './rounds.ts';
import { placeName, type SideName } from './side.ts';

/** By place, operation and side. */
export type Measurements = Record<string, Partial<Record<Operation, Partial<Record<SideName, Statistics>>>>>;

export function measurementsOf(samples: readonly Sample[]): Measurements {
  const measurements: Measurements = {};
  const groups = Map.groupBy(samples, ({ place, operation, side }) => `${placeName(place)} ${operation} ${side}`);
  for (const group of groups.values()) {
    const [{ place, operation, side }] = group as [Sample, ...Sample[]];
    const operationsHere = (measurements[placeName(place)] ??= {});
    (operationsHere[operation] ??= {})[side] = statisticsOf(group.map(({ elapsedMs }) => elapsedMs));
  }
  return measurements;
}

/** Moorage's median divided by another side's; each name says what was measured and the other side. */
export function ratiosOf(measurements: Measurements): Record<string, number> {
  const against = (other: SideName, place: string, operation: Operation): number => {
    const statistics = measurements[place]?.[operation];
    return Number(
      ((statistics?.moorage?.median ?? Number.NaN) / (statistics?.[other]?.median ?? Number.NaN)).toPrecision(3),
    );
  };
  return {
    create_vs_exec: against('exec', 'thick0', 'create'),
    create_thin_vs_exec: against('exec', 'thin0', 'create'),
    create200_vs_exec: against('exec', 'thick200', 'create'),
    create200_thin_vs_exec: against('exec', 'thin200', 'create'),
    create_vs_topolvm: against('topolvm', 'thick0', 'create'),
    create_thin_vs_topolvm: against('topolvm', 'thin0', 'create'),
    create200_vs_topolvm: against('topolvm', 'thick200', 'create'),
    create200_thin_vs_topolvm: against('topolvm', 'thin200', 'create'),
    remove_vs_topolvm: against('topolvm', 'thick0', 'remove'),
    remove_thin_vs_topolvm: against('topolvm', 'thin0', 'remove'),
    remove200_vs_topolvm: against('topolvm', 'thick200', 'remove'),
    remove200_thin_vs_topolvm: against('topolvm', 'thin200', 'remove'),
    list200_vs_topolvm: against('topolvm', 'thick200', 'list'),
    list200_thin_vs_topolvm: against('topolvm', 'thin200', 'list'),
    free200_vs_topolvm: against('topolvm', 'thick200', 'free'),
    free200_thin_vs_topolvm: against('topolvm', 'thin200', 'free'),
    resize_vs_topolvm: against('topolvm', 'thick0', 'resize'),
    resize200_thin_vs_topolvm: against('topolvm', 'thin200', 'resize'),
    burst50_vs_topolvm: against('topolvm', 'thick0', 'create 50'),
    burst50_thin_vs_topolvm: against('topolvm', 'thin0', 'create 50'),
  };
}
