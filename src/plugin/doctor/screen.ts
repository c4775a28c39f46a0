import { type Cell, count, paint, type Terminal, wrapped } from '../terminal.ts';
import type { AreaReport, Finding } from './finding.ts';

/** As `-o json` shows it. Programs depend on these names. */
export interface Diagnosis {
  /** Nothing was found, and everything that applies could be checked. */
  readonly healthy: boolean;
  readonly areas: readonly AreaReport[];
}

const listed = 10;

export function doctorScreen({ areas }: Diagnosis, terminal: Terminal): string {
  const width = Math.max(...areas.map(({ area }) => area.length));
  return [...areas.map((each) => areaLines(each, width, terminal)), '', ...closing(areas)].join('\n');
}

function areaLines({ area, result, summary = '', findings }: AreaReport, width: number, terminal: Terminal): string {
  const line = (mark: Cell, text: string) => {
    const lines = wrapped(text, ' '.repeat(width + 4), terminal).trimStart();
    return `${paint(mark, terminal)} ${area.padEnd(width)}  ${lines}`;
  };
  if (result === 'ok') return line({ text: '✔', colour: 'green' }, summary);
  if (result === 'notApplicable') return line({ text: '-' }, `does not apply: ${summary}`);
  if (result === 'unknown') return line({ text: '?', colour: 'yellow' }, `not checked: ${summary}`);
  const isError = findings.some(({ severity }) => severity === 'error');
  const mark = paint({ text: isError ? '✘' : '!', colour: isError ? 'red' : 'yellow' }, terminal);
  const more = findings.length - listed;
  return [
    `${mark} ${area.padEnd(width)}  ${count(findings.length, 'finding')}`,
    ...findings.slice(0, listed).map((finding) => findingLines(finding, terminal)),
    ...(more > 0 ? [`    and ${more} more; use -o json to see all`] : []),
  ].join('\n');
}

function findingLines({ severity, what, evidence, fix }: Finding, terminal: Terminal): string {
  const mark = paint(
    { text: severity === 'error' ? '✘' : '!', colour: severity === 'error' ? 'red' : 'yellow' },
    terminal,
  );
  const [first = '', ...rest] = wrapped(what, '      ', terminal).split('\n');
  return [
    `    ${mark} ${first.trimStart()}`,
    ...rest,
    ...evidence.map((line) => paint({ text: wrapped(line, '      ', terminal), colour: 'grey' }, terminal)),
    // Commands are not wrapped: they are copied.
    ...fix.split('\n').map((line, i) => `      ${i === 0 ? 'fix: ' : '     '}${line}`),
  ].join('\n');
}

function closing(areas: readonly AreaReport[]): string[] {
  const findings = areas.flatMap((each) => each.findings).length;
  const unknown = areas.filter(({ result }) => result === 'unknown').length;
  const unchecked = unknown > 0 ? [`${count(unknown, 'area')} not checked: ask for the rights that are missing.`] : [];
  return [findings > 0 ? `${count(findings, 'finding')}.` : 'Nothing found.', ...unchecked];
}
