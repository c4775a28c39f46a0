import { pino, stdTimeFunctions } from 'pino';
import { writable } from './log-fields.ts';
import { standardErrorOutput } from './log-output.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

type LogFields = Readonly<Record<string, unknown>>;
type LogEvent = readonly [message: string] | readonly [fields: LogFields, message: string];

/** The part of pino's logger that we use. No call throws, whatever its fields: logging must not break the work. */
export interface Log {
  debug(...event: LogEvent): void;
  info(...event: LogEvent): void;
  warn(...event: LogEvent): void;
  error(...event: LogEvent): void;

  /** Lets callers skip computing fields that would not be logged. */
  isLevelEnabled(level: LogLevel): boolean;

  /** A log that adds these fields to every event. */
  child(fields: LogFields): Log;
}

/** One JSON line per event, on standard error: standard output is for the results of commands. */
export function createLog(process: string, level: LogLevel, write = standardErrorOutput()): Log {
  const options = {
    level,
    base: { process },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), bindings: writable, log: writable },
    serializers: { err: (described: unknown) => described },
  };
  return pino(options, { write });
}
