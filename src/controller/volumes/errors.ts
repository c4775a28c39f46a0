import type { Failure, StoredLogicalVolume } from '../../api/logical-volume.ts';
import { parameters } from '../../api/names.ts';
import { type ErrorCode, MoorageError } from '../../base/errors.ts';
import type { ContentSource } from '../../csi/controller/volume-store.ts';
import { codeOfNumber } from '../../rpc/status.ts';

/** The name is taken by a volume that is not the one asked for. */
export class VolumeTaken extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(name: string, differences: readonly string[]) {
    super(
      `volume ${name} exists already with ${differences.join(', ')}; choose another name, or ask for what is there`,
    );
  }
}

/** The name is taken by another snapshot, or by a volume. */
export class SnapshotTaken extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(name: string, differences: readonly string[]) {
    super(`snapshot ${name} exists already with ${differences.join(', ')}; choose another name`);
  }
}

export class SourceGone extends MoorageError {
  readonly code = 'NotFound';

  constructor({ kind, id }: ContentSource) {
    super(`${kind} ${id} has gone before it was copied; choose another source`);
  }
}

/** The node tried and could not; its own code and words are passed on. */
export class NodeRefused extends MoorageError {
  readonly code: ErrorCode;

  constructor(nodeName: string, failure: Failure) {
    super(`node ${nodeName}: ${failure.message}`);
    this.code = codeOfNumber(failure.code);
  }
}

/** Another node may have the class: by this code the scheduler looks for one, where NotFound would keep the pod there. */
export class ClassNotThere extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(nodeName: string, { message }: Failure) {
    super(
      `node ${nodeName}: ${message}; correct ${parameters.deviceClass} in the StorageClass, ` +
        'or add the class to the configuration of the node',
    );
  }
}

/** The wish stays, so the next call finds it, and the volume if the node has made it by then. */
export class VolumeNotMade extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ metadata, spec }: StoredLogicalVolume) {
    super(
      `node ${spec.nodeName} has not made volume ${metadata.name} in time; ` +
        'it is safe to call again, and if that goes on, check that moorage node runs there',
    );
  }
}

/** The wish stays, so the next call finds it, and the volume grown if the node has done it by then. */
export class VolumeNotGrown extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ metadata, spec, status }: StoredLogicalVolume) {
    const why = status?.code ? `: ${status.message}` : '';
    super(
      `node ${spec.nodeName} has not grown volume ${metadata.name} to ${spec.size} in time${why}; ` +
        'it is safe to call again, and if that goes on, check that moorage node runs there',
    );
  }
}

export class VolumeNotRemoved extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ metadata, spec, status }: StoredLogicalVolume) {
    const why = status?.code ? `: ${status.message}` : '';
    super(
      `node ${spec.nodeName} has not removed volume ${metadata.name} in time${why}; ` +
        'it is safe to call again, and if that goes on, check that moorage node runs there',
    );
  }
}

export class WatchBehind extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor(name: string) {
    super(
      `the watch has not told of volume ${name} in time, although the API server has it; ` +
        'it is safe to call again, and if that goes on, check the load of the API server',
    );
  }
}

/** Which of them has the data, nobody but a person can say. */
export class AmbiguousVolume extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, volumes: readonly StoredLogicalVolume[]) {
    const names = volumes.map(({ metadata, spec }) => `${metadata.name} on node ${spec.nodeName}`).join(', ');
    super(
      `volume ID ${id} is claimed by several LogicalVolumes: ${names}; ` +
        'find out which node has the volume, and delete the LogicalVolume that has not',
    );
  }
}
