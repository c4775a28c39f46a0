import { stringify } from 'yaml';

export { age } from '../base/clock.ts';

/** Standard output. */
export interface Terminal {
  /** Undefined if it is a file or a pipe: then nothing is cut off. */
  readonly columns: number | undefined;
  readonly colours: boolean;
}

export type Colour = 'red' | 'yellow' | 'green' | 'grey';

const codes: Readonly<Record<Colour, number>> = { red: 31, yellow: 33, green: 32, grey: 90 };

/** Text of one colour: widths are those of the text. */
export interface Cell {
  readonly text: string;
  readonly colour?: Colour | undefined;
}

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string | Cell;
  /** Only with `-o wide`. */
  readonly wide?: boolean;
  /** May be cut off to fit the terminal, but not below this width, nor that of its title. */
  readonly atLeast?: number;
  /** Omitted if the terminal has no room for it; the last one first. */
  readonly isOptional?: boolean;
  /** What is cut off: the middle of a name, or the end of a sentence. */
  readonly isSentence?: boolean;
}

const gap = '  ';

export function paint({ text, colour }: Cell, { colours }: Terminal): string {
  return colours && colour && text ? `\u001B[${codes[colour]}m${text}\u001B[0m` : text;
}

/** `worker-2` comes before `worker-10`. */
export const byName = new Intl.Collator('en', { numeric: true }).compare;

/** The columns of a format. `wide` may take more than the terminal has: its lines wrap. */
export function formatted<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  format: Format,
  terminal: Terminal,
): string {
  if (format === 'wide') {
    return table(columns, rows, { ...terminal, columns: terminal.columns && Math.max(terminal.columns, 160) });
  }
  return table(
    columns.filter(({ wide }) => !wide),
    rows,
    terminal,
  );
}

/**
 * Columns as wide as their widest cell; those that may be cut off share what the terminal has. Empty ones are omitted, and optional
 * ones without room.
 */
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[], terminal: Terminal): string {
  const all = columns
    .map((column) => ({ ...column, cells: rows.map((row) => asCell(column.cell(row))) }))
    .filter(({ cells }) => cells.some(({ text }) => text !== ''))
    .map((column) => ({ ...column, ...widthsOf(column) }));
  const filled = withRoom(all, terminal.columns);
  const widths = fit(filled, terminal.columns);
  const line = (cells: readonly Cell[]) =>
    cells
      .map((cell, i) => {
        const text = cut(cell.text, widths[i] ?? 0, filled[i]?.isSentence);
        const isLast = i === cells.length - 1;
        return paint({ ...cell, text }, terminal) + (isLast ? '' : ' '.repeat((widths[i] ?? 0) - text.length));
      })
      .join(gap)
      .trimEnd();
  const header = filled.map(({ title }): Cell => ({ text: title, colour: 'grey' }));
  return [header, ...rows.map((_, row) => filled.map(({ cells }) => cells[row] ?? { text: '' }))].map(line).join('\n');
}

function asCell(content: string | Cell): Cell {
  return typeof content === 'string' ? { text: content } : content;
}

interface Widths {
  readonly wanted: number;
  readonly least: number;
}

function widthsOf({ title, cells, atLeast }: Pick<Column<never>, 'title' | 'atLeast'> & { cells: Cell[] }): Widths {
  const wanted = cells.reduce((w, { text }) => Math.max(w, text.length), title.length);
  return { wanted, least: atLeast === undefined ? wanted : Math.min(wanted, Math.max(atLeast, title.length)) };
}

function withRoom<T extends Widths & { readonly isOptional?: boolean }>(
  all: readonly T[],
  columns = Number.POSITIVE_INFINITY,
): readonly T[] {
  if (lineWidth(all.map(({ least }) => least)) <= columns) return all;
  const dispensable = all.findLast(({ isOptional }) => isOptional);
  if (!dispensable) return all;
  const others = all.filter((each) => each !== dispensable);
  return withRoom(others, columns);
}

function lineWidth(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1));
}

/** Takes from the widest column that may be cut off, until all fit. */
function fit(all: readonly Widths[], columns: number | undefined): readonly number[] {
  const widths = all.map(({ wanted }) => wanted);
  if (columns === undefined) return widths;
  let excess = lineWidth(widths) - columns;
  while (excess > 0) {
    const widest = widths.reduce((best, width, i) => {
      const isAllowed = width > (all[i]?.least ?? width);
      return isAllowed && width > (widths[best] ?? 0) ? i : best;
    }, -1);
    if (widest < 0) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
  return widths;
}

/** The end of a name tells more than its middle: `data-postgres-0` and `data-postgres-1`. */
export function cut(text: string, width: number, isSentence = false): string {
  if (text.length <= width) return text;
  const tail = isSentence ? 0 : Math.floor((width - 1) / 3);
  return `${text.slice(0, width - 1 - tail)}…${tail > 0 ? text.slice(-tail) : ''}`;
}

/** Text in as many lines as the terminal needs, indented. */
export function wrapped(text: string, indent: string, { columns = Number.POSITIVE_INFINITY }: Terminal): string {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= columns) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(indent + word);
  }
  return lines.join('\n');
}

/** How full something is; only what is full has a full bar. */
export function bar(share: number, width = 8): string {
  const filled = Math.floor(Math.min(1, Math.max(0, share)) * width);
  return '█'.repeat(filled) + '░'.repeat(width - filled);
}

export function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`;
}

export type Format = 'table' | 'wide' | 'json' | 'yaml';

/** For programs: sizes are numbers of bytes, and field names are stable. Undefined if a person reads it. */
export function forPrograms(value: unknown, format: Format): string | undefined {
  if (format === 'table' || format === 'wide') return undefined;
  const json = JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? Number(each) : each), 2);
  return format === 'json' ? json : stringify(JSON.parse(json)).trimEnd();
}
