import { MoorageError } from '../base/errors.ts';
import { formatBytes } from '../base/quantity.ts';

export class PoolFull extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(pool: string, wantedBytes: bigint, freeBytes: bigint) {
    super(
      `device class ${pool} has ${formatBytes(freeBytes)} free, ${formatBytes(wantedBytes)} requested; ` +
        'free space, add a disk, or lower spare-gb',
    );
  }
}

/** There is enough space, but not where the volume's layout needs it. */
export class NoRoomForLayout extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(pool: string, wantedBytes: bigint, freeBytes: bigint, options?: ErrorOptions) {
    super(
      `device class ${pool} has ${formatBytes(freeBytes)} free, but ${formatBytes(wantedBytes)} with its mirrors and stripes ` +
        'does not fit on the disks; free space, add disks, or request less',
      options,
    );
  }
}

export class VolumeNotFound extends MoorageError {
  readonly code = 'NotFound';

  constructor(pool: string, id: string) {
    super(`device class ${pool} has no volume ${id}; check that the claim was created with this device class`);
  }
}

/** The name belongs to a volume that does not satisfy the request. */
export class VolumeExists extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(pool: string, id: string, sizeBytes: bigint, wantedBytes: bigint) {
    super(
      `volume ${id} exists in device class ${pool} with ${formatBytes(sizeBytes)}, ${formatBytes(wantedBytes)} requested; ` +
        'grow it, or request the size it has',
    );
  }
}

/** The name belongs to a volume with another origin. */
export class NameTaken extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(pool: string, id: string, wantedOrigin: string | undefined) {
    const wanted = wantedOrigin === undefined ? 'an independent volume' : `a copy of ${wantedOrigin}`;
    super(`volume ${id} exists in device class ${pool} and is not ${wanted}; choose another name`);
  }
}

/** The name belongs to a volume that somebody else created and that may hold data. */
export class NotCreatedHere extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(pool: string, id: string) {
    super(
      `device class ${pool} has a volume ${id} that Moorage did not create; choose another name, or rename that volume`,
    );
  }
}

/** Device classes that share a volume group share its names. */
export class NameTakenByOther extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(id: string, volumeGroup: string) {
    super(`volume group ${volumeGroup} has a volume ${id} of another device class; choose another name`);
  }
}

/** The volume group, thin pool or directory of a device class is missing. */
export class PoolMissing extends MoorageError {
  readonly code = 'FailedPrecondition';
}

/** The configuration changed during the call. */
export class PoolStopped extends MoorageError {
  readonly code = 'Unavailable';

  constructor(pool: string) {
    super(`device class ${pool} was stopped or reconfigured during the call; retry`);
  }
}

export class VolumeInUse extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, devicePath: string, options?: ErrorOptions) {
    super(`volume ${id} is still in use as ${devicePath}; unmount and close it, then retry`, options);
  }
}

/** What has the device open could still write to it. */
export class VolumeOpen extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, devicePath: string, options?: ErrorOptions) {
    super(`volume ${id} is still open as ${devicePath}, so it cannot become read-only; close it, then retry`, options);
  }
}

/** The volume has checkpoints, which depend on it and on its size. */
export class VolumeBeingMoved extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string) {
    super(`volume ${id} is being moved to another node; wait for the end of the move, or abort it`);
  }
}

/** The data of this volume is being copied into another one. */
export class VolumeBeingCopied extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, copy: string) {
    super(`volume ${id} is being copied into ${copy}; wait until that is done`);
  }
}

/** During a full copy nothing may write to the source. */
export class CopyNeedsRest extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, options?: ErrorOptions) {
    super(
      `volume ${id} cannot be copied while it is in use, as the filesystem of its device class cannot share blocks between files; ` +
        'stop the pods that use it and try again, or use a directory on xfs or btrfs, or a thin device class',
      options,
    );
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
      `snapshot ${id} cannot be ${formatBytes(wantedBytes)}: its source has ${formatBytes(sourceBytes)}; ` +
        'request at least the size of the source',
    );
  }
}

/** The data of this volume is being erased, or is queued for erasure. */
export class VolumeBeingErased extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string) {
    super(`volume ${id} is being erased and cannot be used; wait until that is done, or choose another name`);
  }
}

/** Only a volume that stands alone and is writable can be as if newly created. */
export class NotToBeEmptied extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, reason: string) {
    super(`cannot empty volume ${id}: ${reason}; use a new volume instead`);
  }
}

/** Removing it would also remove the snapshots that read from it; growing it would break them. */
export class VolumeHasSnapshots extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, snapshots: readonly string[]) {
    super(`volume ${id} has the snapshots ${snapshots.join(', ')}, which depend on it; it stays as long as they do`);
  }
}

/** Any change of the group would make LVM record the disk as lost and refuse it when it returns. */
export class DiskMissing extends MoorageError {
  readonly code = 'Unavailable';

  constructor(group: string) {
    super(
      `volume group ${group} is missing a disk, so Moorage does not change it; bring the disk back, ` +
        'or if it is lost, see docs/configuration.md#a-disk-that-is-missing',
    );
  }
}

/** The volume is known but has no device. Retrying does not help until somebody repairs it. */
export class VolumeInactive extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, reason: string, options?: ErrorOptions) {
    super(`volume ${id} has no device: ${reason}; look for a missing disk or a thin pool that needs repair`, options);
  }
}

/** A thin pool that runs full endangers the data of all its volumes. */
export class ThinPoolFilling extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(pool: string, what: 'data' | 'metadata', percent: number, maxPercent: number) {
    super(
      `thin pool ${pool} has used ${percent} % of its ${what}, above max-${what}-percent ${maxPercent}, and allocates nothing more; ` +
        `extend the pool with lvextend${what === 'metadata' ? ' --poolmetadatasize' : ''}, free space, or raise the limit`,
    );
  }
}

export class OptionClassNotFound extends MoorageError {
  readonly code = 'Internal';

  constructor(name: string, known: readonly string[]) {
    super(
      `this node has no lvcreate option class ${name}; it has ${known.join(', ') || 'none'}: add it to lvcreate-option-classes, ` +
        'or correct the StorageClass',
    );
  }
}
