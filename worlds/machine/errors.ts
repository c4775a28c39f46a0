import { MoorageError } from '../../src/base/errors.ts';

/** A machine that should be on is not: never started, died by itself, or lost its power during a call. */
export class MachineOff extends MoorageError {
  readonly code = 'Unavailable';
  constructor(name: string, doing: string, console: string) {
    super(`machine ${name} is off, so ${doing} cannot go on; start it, or read its last words:\n${console}`);
  }
}

export class MachineDidNotBoot extends MoorageError {
  readonly code = 'Internal';
  constructor(name: string, reason: string, console: string) {
    super(`machine ${name} did not boot: ${reason}; its last words:\n${console}`);
  }
}

export class CallTimedOut extends MoorageError {
  readonly code = 'DeadlineExceeded';
  constructor(name: string, script: string, timeoutMs: number, output: string) {
    super(`in machine ${name}, this took more than ${timeoutMs} ms and was killed: ${script}\nit said:\n${output}`);
  }
}

/** Files or programs that machines need and that this host cannot give. */
export class MachineFilesUnavailable extends MoorageError {
  readonly code = 'FailedPrecondition';
}
