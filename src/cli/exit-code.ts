import { InvalidInput, MoorageError } from '../base/errors.ts';

/** No engine answers. */
export class EngineUnreachable extends MoorageError {
  readonly code = 'Unavailable';
}

/** The user interrupted the command; work in progress may continue. */
export class Interrupted extends MoorageError {
  readonly code = 'Cancelled';
}

/** 1: refused or failed. 2: invalid command line. 3: no engine. 130: interrupted. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof InvalidInput) return 2;
  if (error instanceof EngineUnreachable) return 3;
  if (error instanceof Interrupted) return 130;
  return 1;
}
