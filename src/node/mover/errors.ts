import { MoorageError } from '../../base/errors.ts';

/** The certificate of one end is not the one that the other expects, as after a restart of its agent. */
export class PeerRefused extends MoorageError {
  readonly code = 'PermissionDenied';

  constructor(peer: string, cause?: unknown) {
    super(`the certificates of this move do not match at ${peer}; read the current ones and retry`, { cause });
  }
}

/** The connection was lost, or the other end is silent. */
export class PeerLost extends MoorageError {
  readonly code = 'Unavailable';

  constructor(peer: string, why: string, cause?: unknown) {
    super(`lost the connection to ${peer}: ${why}; retry`, { cause });
  }
}

/** The source could not do its part. */
export class SourceFailed extends MoorageError {
  readonly code = 'Unavailable';

  constructor(peer: string, message: string) {
    super(`the source of the move, ${peer}, failed: ${message}`);
  }
}

/** The data that arrived is not the data that was read. */
export class FrameCorrupted extends MoorageError {
  readonly code = 'Unavailable';

  constructor(offset: number) {
    super(`the data at offset ${offset} was changed on its way; retry, and check the memory of both nodes`);
  }
}

/** The disk of the target returns other data than was written. */
export class CopyDiffers extends MoorageError {
  readonly code = 'Internal';

  constructor(devicePath: string, offset: number) {
    super(
      `${devicePath} returns other data at offset ${offset} than was written to it; check its disk, and abort the move`,
    );
  }
}

/** The target has less room than the source. */
export class TargetTooSmall extends MoorageError {
  readonly code = 'OutOfRange';

  constructor(devicePath: string, sizeBytes: number, sourceBytes: number) {
    super(`${devicePath} has ${sizeBytes} bytes, less than its source with ${sourceBytes}; abort the move`);
  }
}

/** A disk hangs. */
export class DiskStuck extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor(devicePath: string, timeoutMs: number) {
    super(`${devicePath} has not answered for ${timeoutMs / 1000} s; look for a hanging disk, then retry`);
  }
}
