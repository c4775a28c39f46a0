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

/** The pool cannot copy volumes, or not this one. */
export class SnapshotUnsupported extends MoorageError {
  readonly code = 'Unimplemented';
}

/** A snapshot cannot be smaller than what it is a copy of. */
export class SnapshotTooSmall extends MoorageError {
  readonly code = 'OutOfRange';

  constructor(id: string, sourceBytes: bigint, wantedBytes: bigint) {
    super(
      `snapshot ${id} cannot have ${formatBytes(wantedBytes)}, its source has ${formatBytes(sourceBytes)}; ` +
        'ask for at least the size of the source',
    );
  }
}

/** The data of this volume is being destroyed, or waits for it. */
export class VolumeBeingErased extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string) {
    super(`volume ${id} is being erased and cannot be used any more; wait until it is gone, or choose another name`);
  }
}
