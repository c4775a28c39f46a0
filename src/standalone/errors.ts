import { MoorageError } from '../base/errors.ts';
import type { ContentSource } from '../csi/controller/volume-store.ts';

export class NotThisNode extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(nodeName: string, wanted: readonly string[]) {
    super(
      `accessibility_requirements name ${wanted.join(', ')}, but only node ${nodeName} can have volumes; ` +
        'use that node, or start moorage standalone with another --nodename',
    );
  }
}

export class NoSuchVolume extends MoorageError {
  readonly code = 'NotFound';

  constructor(id: string) {
    super(`there is no volume ${id}; check volume_id with ListVolumes`);
  }
}

export class NoSuchSource extends MoorageError {
  readonly code = 'NotFound';

  constructor({ kind, id }: ContentSource) {
    super(`there is no ${kind} ${id} to copy; check its id`);
  }
}

export class NameTakenByVolume extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(name: string, id: string, differences: readonly string[]) {
    super(`${name} is volume ${id} with ${differences.join(', ')}; choose another name, or repeat the same request`);
  }
}

export class NameTakenBySnapshot extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(name: string, sourceId: string | undefined) {
    super(`${name} is a snapshot of volume ${sourceId}; choose another name, or the same source_volume_id`);
  }
}

export class IoLimitsNotOffered extends MoorageError {
  readonly code = 'InvalidArgument';

  constructor() {
    super('mutable_parameters need Kubernetes, because they limit a pod; leave them out');
  }
}
