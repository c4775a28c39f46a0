import type { Failure, StoredLogicalVolume } from '../../api/logical-volume.ts';
import { parameters } from '../../api/names.ts';
import { type ErrorCode, MoorageError } from '../../base/errors.ts';
import type { ContentSource } from '../../csi/controller/volume-store.ts';
import { codeOfNumber } from '../../rpc/status.ts';

/** The name belongs to a volume that differs from the request. */
export class VolumeTaken extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(name: string, differences: readonly string[]) {
    super(`volume ${name} already exists with ${differences.join(', ')}; choose another name, or request the same`);
  }
}

/** The name belongs to another snapshot, or to a volume. */
export class SnapshotTaken extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(name: string, differences: readonly string[]) {
    super(`snapshot ${name} already exists with ${differences.join(', ')}; choose another name`);
  }
}

export class SourceGone extends MoorageError {
  readonly code = 'NotFound';

  constructor({ kind, id }: ContentSource) {
    super(`${kind} ${id} was deleted before it was copied; choose another source`);
  }
}

/** The node failed; its code and message are passed on. */
export class NodeRefused extends MoorageError {
  readonly code: ErrorCode;

  constructor(nodeName: string, failure: Failure) {
    super(`node ${nodeName}: ${failure.message}`);
    this.code = codeOfNumber(failure.code);
  }
}

/** Another node may have the class: with this code the scheduler tries one, while NotFound would keep the pod there. */
export class DeviceClassNotOnNode extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(nodeName: string, { message }: Failure) {
    super(
      `node ${nodeName}: ${message}; correct ${parameters.deviceClass} in the StorageClass, ` +
        'or add the class to the configuration of the node',
    );
  }
}

/** The request stays in the object, so a retry finds it, and the volume if the node has created it by then. */
export class VolumeNotCreated extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ metadata, spec }: StoredLogicalVolume) {
    super(
      `node ${spec.nodeName} did not create volume ${metadata.name} in time; ` +
        'retry; if it keeps failing, check that moorage node is running there',
    );
  }
}

/** The request stays in the object, so a retry finds it, or the volume already grown. */
export class VolumeNotGrown extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ metadata, spec, status }: StoredLogicalVolume) {
    const why = status?.code ? `: ${status.message}` : '';
    super(
      `node ${spec.nodeName} did not grow volume ${metadata.name} to ${spec.size} in time${why}; ` +
        'retry; if it keeps failing, check that moorage node is running there',
    );
  }
}

export class VolumeNotRemoved extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ metadata, spec, status }: StoredLogicalVolume) {
    const why = status?.code ? `: ${status.message}` : '';
    super(
      `node ${spec.nodeName} did not remove volume ${metadata.name} in time${why}; ` +
        'retry; if it keeps failing, check that moorage node is running there',
    );
  }
}

export class WatchBehind extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor(name: string) {
    super(
      `the watch did not report volume ${name} in time, although the API server has it; ` +
        'retry; if it keeps failing, check the load of the API server',
    );
  }
}

/** Only a person can decide which of them has the data. */
export class AmbiguousVolume extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, volumes: readonly StoredLogicalVolume[]) {
    const names = volumes.map(({ metadata, spec }) => `${metadata.name} on node ${spec.nodeName}`).join(', ');
    super(
      `volume ID ${id} is claimed by several LogicalVolumes: ${names}; ` +
        'use lvs to find the node that has the volume before you change any of them',
    );
  }
}
