import { type Logger, pino } from 'pino';

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
      formatters: { level: (label) => ({ level: label }) },
    },
    pino.destination({ dest: 2, sync: true }),
  );
}

/** For tests and for code that has nobody to tell. */
export const silentLog: Log = pino({ level: 'silent' });
