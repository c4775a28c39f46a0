/**
 * What went wrong, in the words of gRPC's status codes. They are ours too, because they are what CSI, lvmd and
 * `status.code` of a LogicalVolume carry; `src/rpc` knows their numbers.
 */
export type ErrorCode =
  | 'Aborted'
  | 'AlreadyExists'
  | 'Cancelled'
  | 'DeadlineExceeded'
  | 'FailedPrecondition'
  | 'Internal'
  | 'InvalidArgument'
  | 'NotFound'
  | 'OutOfRange'
  | 'PermissionDenied'
  | 'ResourceExhausted'
  | 'Unavailable'
  | 'Unimplemented';

/**
 * An error that a caller can act on: a code, and one sentence that says what is wrong and what to do about it.
 * The sentence goes unchanged to the log, to the caller and into Events, so it must never hold a secret.
 */
export abstract class MoorageError extends Error {
  abstract readonly code: ErrorCode;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Input that is wrong whatever the state of the world; the message names the field and the remedy. */
export class InvalidInput extends MoorageError {
  readonly code = 'InvalidArgument';
}

/** The code to report for anything that was thrown. */
export function codeOf(error: unknown): ErrorCode {
  if (error instanceof MoorageError) return error.code;
  if (error instanceof Error && error.name === 'AbortError') return 'Cancelled';
  if (error instanceof Error && error.name === 'TimeoutError') return 'DeadlineExceeded';
  return 'Internal';
}

/** The sentence to report for anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
