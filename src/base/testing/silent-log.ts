import { pino } from 'pino';
import type { Log } from '../log.ts';

/** For tests that do not read the log. */
export const silentLog: Log = pino({ level: 'silent' }, { write: () => undefined });
