import { MoorageError } from '../base/errors.ts';
import { movingKey, receivingKey, tagValue } from '../engine/names-and-tags.ts';
import type { Volume } from '../engine/pool.ts';

/**
 * Refuses to give a volume that moves to a pod: the source would get writes that the copy misses, and the target has not
 * all data yet. The kubelet retries, so a pod that is still needed here starts when the move is aborted.
 */
export function mustNotMove({ id, tags }: Pick<Volume, 'id' | 'tags'>): void {
  if (tagValue(tags, movingKey)) throw new VolumeLeaves(id);
  if (tagValue(tags, receivingKey)) throw new VolumeArrives(id);
}

export class VolumeLeaves extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string) {
    super(
      `volume ${id} moves to another node and cannot be used here any more; ` +
        'see kubectl get volumemoves -A; its pod is replaced when it has moved',
    );
  }
}

export class VolumeArrives extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string) {
    super(
      `volume ${id} moves to this node and does not have all its data yet; ` +
        'see kubectl get volumemoves -A; it can be used when the move opens it',
    );
  }
}
