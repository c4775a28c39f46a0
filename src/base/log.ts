import { pino, stdTimeFunctions } from 'pino';
import { writable } from './log-fields.ts';
import { standardErrorOutput } from './log-output.ts';

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

type LogFields = Readonly<Record<string, unknown>>;
type LogEvent = readonly [message: string] | readonly [fields: LogFields, message: string];

/** What we use of pino's logger. No call throws, whatever its fields are: it must not cost the work that it is about. */
export interface Log {
  debug(...event: LogEvent): void;
  info(...event: LogEvent): void;
  warn(...event: LogEvent): void;
  error(...event: LogEvent): void;

  /** Spares the work of gathering fields that nobody would see. */
  isLevelEnabled(level: LogLevel): boolean;

  /** A log whose every event has these fields too. */
  child(fields: LogFields): Log;
}

/** One JSON line for each event, on standard error: standard output belongs to what a command was asked to print. */
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

/** For tests and for code that has nobody to tell. */
export const silentLog: Log = pino({ level: 'silent' }, { write: () => undefined });
