import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import { isSourceOf, isTargetOf, type StoredVolumeMove } from '../../api/volume-move.ts';
import { MoorageError } from '../../base/errors.ts';

const isMarked = { source: isSourceOf, target: isTargetOf } as const;

/** The status of a move names volumes; the controller's mark on a volume says that it is the right one. */
export function mustBeMarked(end: keyof typeof isMarked, move: StoredVolumeMove, volume: StoredLogicalVolume): void {
  if (!isMarked[end](move, volume)) throw new NotMarked(end, move, volume);
}

class NotMarked extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(end: string, move: StoredVolumeMove, volume: StoredLogicalVolume) {
    const { namespace, name } = move.metadata;
    super(
      `LogicalVolume ${volume.metadata.name} is not marked as the ${end} of VolumeMove ${namespace}/${name}, so nothing is done ` +
        'with it; the controller marks it if it belongs to the claim: update the controller, or abort the move',
    );
  }
}
