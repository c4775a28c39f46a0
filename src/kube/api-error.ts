import { type ErrorCode, MoorageError } from '../base/errors.ts';

/** The fields that we use of the `Status` object that the API server returns with an error. */
export interface ApiStatus {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly reason?: string; readonly message?: string; readonly field?: string }[];
  };
}

/** The API server refused the request. */
export class ApiError extends MoorageError {
  readonly code: ErrorCode;
  readonly status: number;
  readonly reason: string;
  readonly details: ApiStatus['details'];

  constructor(request: string, status: ApiStatus) {
    const httpStatus = status.code ?? 500;
    const reason = status.reason ?? `HTTP ${httpStatus}`;
    super(`the API server refused ${request}: ${status.message ?? reason}${remedyFor(httpStatus)}`);
    this.status = httpStatus;
    this.reason = reason;
    this.details = status.details;
    this.code = codeFor(httpStatus, reason);
  }

  get isNotFound(): boolean {
    return this.status === 404;
  }

  /** Another client wrote in between, or owns the field: read again and decide again. */
  get isConflict(): boolean {
    return this.status === 409 && this.reason !== 'AlreadyExists';
  }

  get isAlreadyExists(): boolean {
    return this.status === 409 && this.reason === 'AlreadyExists';
  }

  /** The server no longer has the state of this resourceVersion or continue token. */
  get isGone(): boolean {
    return this.status === 410;
  }

  get isInvalid(): boolean {
    return this.status === 400 || this.status === 422;
  }
}

/** No usable answer: connection refused or cut, or an invalid answer. Whether a write happened is unknown. */
export class ApiUnreachable extends MoorageError {
  readonly code = 'Unavailable';

  constructor(request: string, server: string, cause: unknown) {
    const why = cause instanceof Error ? [cause.message, codeOfCause(cause)].filter(Boolean).join(' ') : String(cause);
    super(`no answer from the API server ${server} to ${request}: ${why}; check that it is running and reachable`, {
      cause,
    });
  }
}

/** No answer in time. Whether a write happened is unknown. */
export class ApiTimeout extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor(request: string, server: string, timeoutMs: number) {
    super(
      `the API server ${server} did not answer ${request} within ${timeoutMs / 1000} s; check its health and the network`,
    );
  }
}

export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && error.isNotFound;
}

export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.isConflict;
}

export function isAlreadyExists(error: unknown): boolean {
  return error instanceof ApiError && error.isAlreadyExists;
}

/** The namespace of the object does not exist, or is being deleted. */
export function isNamespaceGone(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.isNotFound || (error.status === 403 && /being terminated/.test(error.message));
}

export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.isGone;
}

function codeFor(status: number, reason: string): ErrorCode {
  switch (status) {
    case 400:
    case 422:
      return 'InvalidArgument';
    case 401:
    case 403:
      return 'PermissionDenied';
    case 404:
      return 'NotFound';
    case 405:
    case 406:
    case 415:
    case 501:
      return 'Unimplemented';
    case 409:
      return reason === 'AlreadyExists' ? 'AlreadyExists' : 'Aborted';
    case 410:
      return 'Aborted';
    case 429:
    case 502:
    case 503:
      return 'Unavailable';
    case 504:
      return 'DeadlineExceeded';
    default:
      return 'Internal';
  }
}

function remedyFor(status: number): string {
  if (status === 401) return '; check that the token or client certificate is valid and not expired';
  if (status === 403) return '; grant this right by RBAC';
  return '';
}

function codeOfCause(cause: Error): string {
  return 'code' in cause && typeof cause.code === 'string' && !cause.message.includes(cause.code)
    ? `(${cause.code})`
    : '';
}
