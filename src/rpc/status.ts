import type { ErrorCode } from '../base/errors.ts';

const numbers: Readonly<Record<ErrorCode, number>> = {
  Cancelled: 1,
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  AlreadyExists: 6,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  FailedPrecondition: 9,
  Aborted: 10,
  OutOfRange: 11,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
};

const codes = new Map<number, ErrorCode>(Object.entries(numbers).map(([code, number]) => [number, code as ErrorCode]));

/** The number that gRPC and `status.code` of a LogicalVolume use. */
export function numberOf(code: ErrorCode): number {
  return numbers[code];
}

/** The code behind a number that somebody else has sent. Those that we never send ourselves tell no more than Internal. */
export function codeOfNumber(number: number | undefined): ErrorCode {
  return codes.get(number ?? 0) ?? 'Internal';
}

/** Headers have little room, and nobody reads so long a sentence. */
const longestDetails = 4096;

/** A sentence that a header can carry, however it came about: grpc-js throws at half of a character. */
export function detailsOf(message: string): string {
  return message.slice(0, longestDetails).toWellFormed();
}
