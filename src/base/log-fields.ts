import { MoorageError } from './errors.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Far more than anyone reads, and far less than would harm a process. */
const longestValue = 1_000_000;

/** Fields as JSON values. Never throws: a value that cannot be serialized is replaced by a note. */
export function writable(fields: Fields): Fields {
  return Object.fromEntries(Object.keys(fields).map((name) => [name, valueOf(fields, name)]));
}

function valueOf(fields: Fields, name: string): unknown {
  try {
    const value = fields[name];
    if (typeof value === 'string') return cut(value);
    if (typeof value === 'bigint') return String(value); // most readers would round a number
    if (typeof value !== 'object' || value === null) return value;
    const json = JSON.stringify(value, inWordsOfJson) as string | undefined;
    return json !== undefined && json.length <= longestValue ? JSON.parse(json) : cut(json);
  } catch {
    return 'cannot be written as JSON'; // it contains itself, is infinite, or throws when it is read
  }
}

function cut(text: string | undefined): string | undefined {
  return text !== undefined && text.length > longestValue ? `${text.slice(0, longestValue)}... and more` : text;
}

function inWordsOfJson(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Error ? describe(value) : value;
}

/** A MoorageError says everything in its sentence; the origin of any other error is only in its stack. */
function describe(error: Error): unknown {
  return error instanceof MoorageError ? { type: error.name, code: error.code } : detailsOf(error, []);
}

function detailsOf(error: Error, outer: readonly Error[]): unknown {
  if (outer.includes(error)) return 'as above';
  const inner = (cause: unknown) => (cause instanceof Error ? detailsOf(cause, [...outer, error]) : undefined);
  // Such as code and syscall of Node's errors. Objects may be large or contain a secret: a request has its headers.
  const facts = Object.entries(error).filter(([, value]) => /^(string|number|boolean)$/.test(typeof value));
  return {
    type: error.constructor.name,
    message: error.message,
    stack: error.stack,
    ...(error instanceof AggregateError && { aggregateErrors: error.errors.map(inner) }),
    ...Object.fromEntries(facts),
    cause: inner(error.cause),
  };
}
