import { MoorageError } from './errors.ts';

/** Far more than anybody reads, and far less than would trouble a process. */
const longestValue = 1_000_000;

/** Fields as members of a JSON object, each with a comma before it. Never throws: what cannot be written says so instead. */
export function written(fields: Readonly<Record<string, unknown>>): string {
  let members = '';
  for (const name of Object.keys(fields)) {
    const value = valueOf(fields, name);
    if (value !== undefined) members += `,${JSON.stringify(name)}:${value}`;
  }
  return members;
}

/** Undefined for what JSON has no word for. */
function valueOf(fields: Readonly<Record<string, unknown>>, name: string): string | undefined {
  try {
    const value = JSON.stringify(fields[name], inWordsOfJson) as string | undefined;
    return value !== undefined && value.length > longestValue
      ? JSON.stringify(`${value.slice(0, longestValue)}... and more`)
      : value;
  } catch {
    return '"cannot be written as JSON"'; // it holds itself, has no end, or throws when it is read
  }
}

function inWordsOfJson(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value); // as a number, most readers would round it
  return value instanceof Error ? describe(value) : value;
}

/** An error that we foresaw says all in its sentence; where any other one comes from, only its stack tells. */
function describe(error: Error): unknown {
  return error instanceof MoorageError ? { type: error.name, code: error.code } : detailsOf(error, []);
}

function detailsOf(error: Error, outer: readonly Error[]): unknown {
  if (outer.includes(error)) return 'as above';
  const inner = (cause: unknown) => (cause instanceof Error ? detailsOf(cause, [...outer, error]) : undefined);
  const facts = Object.entries(error).filter(([, value]) => /^(string|number|boolean)$/.test(typeof value));
  return {
    type: error.constructor.name,
    message: error.message,
    stack: error.stack,
    ...(error instanceof AggregateError && { aggregateErrors: error.errors.map(inner) }),
    ...Object.fromEntries(facts), // such as code and syscall of one of Node's
    cause: inner(error.cause),
  };
}
