import { status } from '@grpc/grpc-js';
import type { ErrorCode } from '../base/errors.ts';

const numbers: Readonly<Record<ErrorCode, status>> = {
  Aborted: status.ABORTED,
  AlreadyExists: status.ALREADY_EXISTS,
  Cancelled: status.CANCELLED,
  DeadlineExceeded: status.DEADLINE_EXCEEDED,
  FailedPrecondition: status.FAILED_PRECONDITION,
  Internal: status.INTERNAL,
  InvalidArgument: status.INVALID_ARGUMENT,
  NotFound: status.NOT_FOUND,
  OutOfRange: status.OUT_OF_RANGE,
  PermissionDenied: status.PERMISSION_DENIED,
  ResourceExhausted: status.RESOURCE_EXHAUSTED,
  Unavailable: status.UNAVAILABLE,
  Unimplemented: status.UNIMPLEMENTED,
};

const codes = new Map<number, ErrorCode>(Object.entries(numbers).map(([code, number]) => [number, code as ErrorCode]));

/** The number that gRPC and `status.code` of a LogicalVolume use. */
export function numberOf(code: ErrorCode): status {
  return numbers[code];
}

/** The code behind a number that somebody else has sent. Those that we never send ourselves tell no more than Internal. */
export function codeOfNumber(number: number): ErrorCode {
  return codes.get(number) ?? 'Internal';
}
