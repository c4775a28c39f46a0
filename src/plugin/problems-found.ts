import { MoorageError } from '../base/errors.ts';

/** A command found something that it has printed already: for the exit code. */
export class ProblemsFound extends MoorageError {
  readonly code = 'FailedPrecondition';
}
