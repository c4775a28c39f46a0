/**
 * What went wrong, as a gRPC status code. CSI, lvmd and `status.code` of a LogicalVolume use the same codes; `src/rpc`
 * knows their numbers.
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
 * An error that a caller can act on: a code, and one sentence with the problem and its remedy.
 * The sentence goes unchanged to the log, to the caller and into Events, so it must never contain a secret.
 */
export abstract class MoorageError extends Error {
  abstract readonly code: ErrorCode;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Input that is invalid in any state of the system; the message names the field and the remedy. */
export class InvalidInput extends MoorageError {
  readonly code = 'InvalidArgument';
}

/** The code to report for any thrown value. */
export function codeOf(error: unknown): ErrorCode {
  if (error instanceof MoorageError) return error.code;
  if (error instanceof Error && error.name === 'AbortError') return 'Cancelled';
  if (error instanceof Error && error.name === 'TimeoutError') return 'DeadlineExceeded';
  return 'Internal';
}

/** The sentence to report for any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
