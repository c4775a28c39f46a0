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

/** There is room, but not where the layout of the volume needs it. */
export class NoRoomForLayout extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(pool: string, wantedBytes: bigint, freeBytes: bigint, options?: ErrorOptions) {
    super(
      `device class ${pool} has ${formatBytes(freeBytes)} free, but ${formatBytes(wantedBytes)} with its mirrors and stripes ` +
        'does not fit on the disks; remove volumes, add disks, or ask for less',
      options,
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

/** The name is taken by a volume that was made in another way. */
export class NameTaken extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(pool: string, id: string, wantedOrigin: string | undefined) {
    const wanted = wantedOrigin === undefined ? 'a volume of its own' : `a copy of ${wantedOrigin}`;
    super(`volume ${id} exists in device class ${pool} and is not ${wanted}; choose another name`);
  }
}

/** The name is taken by a volume that somebody else has made, who may have data on it. */
export class NotMadeHere extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(pool: string, id: string) {
    super(
      `device class ${pool} has a volume ${id} that Moorage has not made; choose another name, or rename that volume`,
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

/** What a device class stands on is not there. */
export class PoolMissing extends MoorageError {
  readonly code = 'FailedPrecondition';
}

/** The configuration has changed while the call was on its way. */
export class PoolStopped extends MoorageError {
  readonly code = 'Unavailable';

  constructor(pool: string) {
    super(`device class ${pool} is no longer served as it was; ask again`);
  }
}

export class VolumeInUse extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, devicePath: string, options?: ErrorOptions) {
    super(`volume ${id} is still in use as ${devicePath}; unmount and close it, then remove it again`, options);
  }
}

/** What is on this volume is being read into another one. */
export class VolumeBeingCopied extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, copy: string) {
    super(`volume ${id} is being copied into ${copy}; remove it once that is done`);
  }
}

/** Where a copy has to be read in full, nobody may write to its source meanwhile. */
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

/** Removing it would take the snapshots with it that read from it; growing it would break them. */
export class VolumeHasSnapshots extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, snapshots: readonly string[]) {
    super(`volume ${id} has the snapshots ${snapshots.join(', ')}, which live from it; remove them first`);
  }
}

/** LVM would write down the disk as lost with any change of the group, and not take it back when it returns. */
export class DiskMissing extends MoorageError {
  readonly code = 'Unavailable';

  constructor(group: string) {
    super(
      `a disk of volume group ${group} cannot be found, so nothing is changed in it; bring the disk back, ` +
        `or if it is lost remove it with vgreduce --removemissing ${group}`,
    );
  }
}

/** The volume is known, but has no device that could be opened; somebody must act before trying again can help. */
export class VolumeInactive extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, reason: string, options?: ErrorOptions) {
    super(`volume ${id} has no device: ${reason}; look for a missing disk or a thin pool that needs repair`, options);
  }
}

/** To promise more would endanger the data of every volume in the thin pool. */
export class ThinPoolFilling extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(pool: string, what: 'data' | 'metadata', percent: number, maxPercent: number) {
    super(
      `thin pool ${pool} has used ${percent} % of its ${what}, and gives nothing more above max-${what}-percent ${maxPercent}; ` +
        `extend the pool with lvextend${what === 'metadata' ? ' --poolmetadatasize' : ''}, remove volumes or snapshots, or raise the limit`,
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
