import type { Observed, Readings } from './observed.ts';

/** Something that is wrong with the installation. */
export interface Finding {
  readonly severity: 'error' | 'warning';
  /** One sentence. */
  readonly what: string;
  /** What shows it: fields of objects, as they are. */
  readonly evidence: readonly string[];
  /** A command, or what to do; several are on several lines. */
  readonly fix: string;
}

/** One part of the installation. It is judged only if everything that it needs could be read. */
export interface Area {
  readonly name: string;
  readonly needs: readonly (keyof Readings)[];
  /** What to judge by if something that it needs is absent. Without it, the area does not apply then. */
  readonly ifAbsent?: Partial<Observed>;
  readonly judge: (observed: Observed) => Judgement;
}

export interface Judgement {
  /** What is well, if nothing is found. */
  readonly summary: string;
  readonly findings: readonly Finding[];
}

/** As `-o json` shows it. Programs depend on these names. */
export interface AreaReport {
  readonly area: string;
  readonly result: 'ok' | 'findings' | 'unknown' | 'notApplicable';
  /** What is well, or why the area could not be checked, or does not apply. */
  readonly summary?: string;
  readonly findings: readonly Finding[];
}

/** Declares an area; `judge` gets only what the area needs, which has been read. */
export function area<const Need extends keyof Readings>(declaration: {
  readonly name: string;
  readonly needs: readonly Need[];
  readonly ifAbsent?: Partial<Pick<Observed, Need>>;
  readonly judge: (observed: Pick<Observed, Need | 'nowMs' | 'version'>) => Judgement;
}): Area {
  return declaration;
}

/** "Unknown" is never "well": an area whose objects may not be read is not judged. */
export function reportOf({ name, needs, ifAbsent, judge }: Area, readings: Readings, about: About): AreaReport {
  const unknown = needs.map((need) => readings[need]).find((reading) => reading.kind === 'unknown');
  if (unknown?.kind === 'unknown') {
    return { area: name, result: 'unknown', summary: unknown.reason, findings: [] };
  }
  const absent = needs.map((need) => readings[need]).find((reading) => reading.kind === 'absent');
  if (absent?.kind === 'absent' && !ifAbsent) {
    return { area: name, result: 'notApplicable', summary: absent.reason, findings: [] };
  }
  const values = Object.entries(readings).flatMap(([key, reading]) =>
    reading.kind === 'read' ? [[key, reading.value]] : [],
  );
  const { summary, findings } = judge({ ...ifAbsent, ...Object.fromEntries(values), ...about } as Observed);
  if (findings.length === 0) return { area: name, result: 'ok', summary, findings };
  return { area: name, result: 'findings', findings: findings.toSorted(errorsFirst) };
}

/** What is known without the objects. */
export type About = Pick<Observed, 'nowMs' | 'version'>;

function errorsFirst(one: Finding, other: Finding): number {
  return one.severity.localeCompare(other.severity);
}

const listed = 5;

/** The first of many names. */
export function some(names: readonly string[]): string {
  const more = names.length - listed;
  return names.slice(0, listed).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
