import { written } from './log-fields.ts';
import { writeToStandardError } from './log-output.ts';

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

type LogFields = Readonly<Record<string, unknown>>;
type LogEvent = readonly [message: string] | readonly [fields: LogFields, message: string];

/** Tells what happens, an event a call. No call throws, whatever its fields are: it must not cost the work that it tells of. */
export interface Log {
  debug(...event: LogEvent): void;
  info(...event: LogEvent): void;
  warn(...event: LogEvent): void;
  error(...event: LogEvent): void;

  /** Spares the work of gathering fields that nobody would see. */
  isLevelEnabled(level: LogLevel): boolean;

  /** One whose every event has these fields too. */
  child(fields: LogFields): Log;
}

/** One JSON line an event, on standard error: standard output belongs to what a command was asked to print. */
export function createLog(process: string, level: LogLevel, write = writeToStandardError): Log {
  return new JsonLog(logLevels.indexOf(level), written({ process }), write);
}

class JsonLog implements Log {
  readonly #lowest: number;
  readonly #always: string;
  readonly #write: (line: string) => void;

  /** `lowest` is the place in `logLevels` of the first that is written; `always` is what every event has, written already. */
  constructor(lowest: number, always: string, write: (line: string) => void) {
    this.#lowest = lowest;
    this.#always = always;
    this.#write = write;
  }

  debug(...event: LogEvent): void {
    this.#tell('debug', event);
  }

  info(...event: LogEvent): void {
    this.#tell('info', event);
  }

  warn(...event: LogEvent): void {
    this.#tell('warn', event);
  }

  error(...event: LogEvent): void {
    this.#tell('error', event);
  }

  isLevelEnabled(level: LogLevel): boolean {
    return logLevels.indexOf(level) >= this.#lowest;
  }

  child(fields: LogFields): Log {
    return new JsonLog(this.#lowest, this.#always + written(fields), this.#write);
  }

  #tell(level: LogLevel, event: LogEvent): void {
    if (!this.isLevelEnabled(level)) return;
    const [fields, msg] = event.length === 1 ? [{}, event[0]] : event;
    const time = new Date().toISOString();
    this.#write(`{"level":"${level}","time":"${time}"${this.#always}${written(fields)}${written({ msg })}}\n`);
  }
}

/** For tests and for code that has nobody to tell. */
export const silentLog: Log = new JsonLog(logLevels.length, '', () => {});
