import { MoorageError } from '../base/errors.ts';
import type { VolumeId } from './pool.ts';

export class WrongKey extends MoorageError {
  readonly code = 'PermissionDenied';

  constructor(id: VolumeId, options?: ErrorOptions) {
    super(`the key does not open volume ${id}; give the key that it was encrypted with, or last changed to`, options);
  }
}

export class EncryptionBroken extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(`the LUKS header of volume ${id} cannot be understood; restore it from a backup of the header`);
  }
}

/** The name of the open volume is taken by something else. */
export class MappingForeign extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, mapping: string, backing: string) {
    super(
      `${mapping} is open on ${backing}, which is not volume ${id}; if nobody uses it, close it with cryptsetup close`,
    );
  }
}
