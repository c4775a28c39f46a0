import { MoorageError } from '../base/errors.ts';
import { formatBytes } from '../base/quantity.ts';

export class PoolFull extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(pool: string, wantedBytes: bigint, freeBytes: bigint) {
    super(
      `device class ${pool} has ${formatBytes(freeBytes)} free, ${formatBytes(wantedBytes)} wanted; ` +
        'remove volumes, add a disk, or lower spare-gb',
    );
  }
}

export class VolumeNotFound extends MoorageError {
  readonly code = 'NotFound';

  constructor(pool: string, id: string) {
    super(`device class ${pool} has no volume ${id}; check that the claim was made with this device class`);
  }
}

/** The name is taken by a volume that cannot serve the request. */
export class VolumeExists extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(pool: string, id: string, sizeBytes: bigint, wantedBytes: bigint) {
    super(
      `volume ${id} exists in device class ${pool} with ${formatBytes(sizeBytes)}, ${formatBytes(wantedBytes)} wanted; ` +
        'grow it, or ask for the size it has',
    );
  }
}

/** What a device class stands on is not there. */
export class PoolMissing extends MoorageError {
  readonly code = 'FailedPrecondition';
}

export class VolumeInUse extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, devicePath: string, options?: ErrorOptions) {
    super(`volume ${id} is still in use as ${devicePath}; unmount and close it, then remove it again`, options);
  }
}
