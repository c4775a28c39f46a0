import {
  bytesOf,
  deleting,
  failureOf,
  type LogicalVolumeSpec,
  type LogicalVolumeStatus,
  type StoredLogicalVolume,
} from '../../api/logical-volume.ts';
import { logicalVolume, pendingDeletionAnnotation } from '../../api/names.ts';

/** What a node does next about one of its LogicalVolumes. */
export type Step = 'create' | 'measure' | 'grow' | 'settle' | 'remove' | 'nothing';

export function nextStep(volume: StoredLogicalVolume): Step {
  const { annotations, finalizers = [] } = volume.metadata;
  // Its node was removed from the cluster and the claim let go: what is left on the disks is not ours to touch.
  if (annotations?.[pendingDeletionAnnotation] === 'true') return 'nothing';
  // Without our finalizer we have been here before, or somebody has taken the volume out of our hands.
  if (deleting(volume)) return finalizers.includes(logicalVolume.finalizer) ? 'remove' : 'nothing';
  // It was made, and may hold data: whatever is missing from its status, it is never made again.
  if (volume.status?.volumeID) return ofMade(volume.spec, volume.status);
  // The controller tells its caller of a failure and deletes the object; trying again here would make a volume behind its back.
  return failureOf(volume) ? 'nothing' : 'create';
}

function ofMade({ size }: LogicalVolumeSpec, { currentSize, code = 0 }: LogicalVolumeStatus): Step {
  if (!currentSize) return 'measure';
  if (bytesOf(size) > bytesOf(currentSize)) return 'grow';
  return code === 0 ? 'nothing' : 'settle'; // a wish to grow that could not be met, and was withdrawn
}
