import { type Figure, figureOf } from '../figure.ts';
import type { Operation, Sample } from './rounds.ts';
import { placeName, type SideName } from './side.ts';

/** By place, operation and side. */
export type Figures = Record<string, Partial<Record<Operation, Partial<Record<SideName, Figure>>>>>;

export function figuresOf(samples: readonly Sample[]): Figures {
  const figures: Figures = {};
  const groups = Map.groupBy(samples, ({ place, operation, side }) => `${placeName(place)} ${operation} ${side}`);
  for (const group of groups.values()) {
    const [{ place, operation, side }] = group as [Sample, ...Sample[]];
    const operationsHere = (figures[placeName(place)] ??= {});
    (operationsHere[operation] ??= {})[side] = figureOf(group.map(({ elapsedMs }) => elapsedMs));
  }
  return figures;
}

/** Moorage's median divided by another side's; each name says what was measured and the other side. */
export function ratiosOf(figures: Figures): Record<string, number> {
  const against = (other: SideName, place: string, operation: Operation): number => {
    const figure = figures[place]?.[operation];
    return Number(((figure?.moorage?.median ?? Number.NaN) / (figure?.[other]?.median ?? Number.NaN)).toPrecision(3));
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
