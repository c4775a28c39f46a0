import { type Logger, pino } from 'pino';
import { MoorageError } from './errors.ts';

export type Log = Logger;

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

/** One JSON line an event, on standard error: standard output belongs to what a command was asked to print. */
export function createLog(process: string, level: LogLevel): Log {
  return pino(
    {
      level,
      base: { process },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: describe },
      formatters: { level: (label) => ({ level: label }) },
    },
    pino.destination({ dest: 2, sync: true }),
  );
}

/** An error that we foresaw says all in its sentence; where any other one comes from, only its stack tells. */
function describe(error: unknown): unknown {
  if (error instanceof MoorageError) return { type: error.name, code: error.code };
  return error instanceof Error ? pino.stdSerializers.errWithCause(error) : error;
}

/** For tests and for code that has nobody to tell. */
export const silentLog: Log = pino({ level: 'silent' });
