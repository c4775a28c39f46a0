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

/** The code for a number from another program. Codes that we never send count as Internal. */
export function codeOfNumber(number: number | undefined): ErrorCode {
  return codes.get(number ?? 0) ?? 'Internal';
}

/** Headers are limited in size. */
const longestDetails = 4096;

/** The message in a form that a header can carry: grpc-js throws at an unpaired surrogate. */
export function detailsOf(message: string): string {
  return message.slice(0, longestDetails).toWellFormed();
}
