import type { ErrorCode } from '../base/errors.ts';

/** gRPC's number for success. */
export const ok = 0;

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
export function codeOfNumber(number: number): ErrorCode {
  return codes.get(number) ?? 'Internal';
}

/** Headers have little room, and nobody reads so long a sentence. */
const longestMessage = 4096;

/** A sentence as a header carries it: printable ASCII, all else byte by byte as %XX. */
export function encodeMessage(message: string): string {
  return message
    .slice(0, longestMessage)
    .toWellFormed()
    .replaceAll(/[^ -$&-~]+/gu, encodeURIComponent);
}

/** What is not encoded properly is told as it came. */
export function decodeMessage(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}
