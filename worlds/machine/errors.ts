import { MoorageError } from '../../src/base/errors.ts';

/** A machine that should be on is off: never started, crashed, or lost power during a call. */
export class MachineOff extends MoorageError {
  readonly code = 'Unavailable';
  constructor(name: string, doing: string, console: string) {
    super(`machine ${name} is off, cannot run ${doing}; start it, or read its last log lines:\n${console}`);
  }
}

export class MachineDidNotBoot extends MoorageError {
  readonly code = 'Internal';
  constructor(name: string, reason: string, console: string) {
    super(`machine ${name} did not boot: ${reason}; its last log lines:\n${console}`);
  }
}

export class CallTimedOut extends MoorageError {
  readonly code = 'DeadlineExceeded';
  constructor(name: string, script: string, timeoutMs: number, output: string) {
    super(`in machine ${name}, a script took more than ${timeoutMs} ms and was killed: ${script}\noutput:\n${output}`);
  }
}

/** Files or programs that machines need and this host lacks. */
export class MachineFilesUnavailable extends MoorageError {
  readonly code = 'FailedPrecondition';
}
