import { InvalidInput, MoorageError } from '../base/errors.ts';

/** Nobody answers where the engine should be. */
export class EngineUnreachable extends MoorageError {
  readonly code = 'Unavailable';
}

/** The person at the keyboard has left; what was begun may go on. */
export class Interrupted extends MoorageError {
  readonly code = 'Cancelled';
}

/** 1: it was tried and refused, or failed. 2: the command line is wrong. 3: there is no engine. 130: interrupted. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof InvalidInput) return 2;
  if (error instanceof EngineUnreachable) return 3;
  if (error instanceof Interrupted) return 130;
  return 1;
}
