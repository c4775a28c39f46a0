import { deleting, failureOf, type StoredLogicalVolume } from '../logical-volume/logical-volume.ts';
import { logicalVolume, pendingDeletionAnnotation } from '../names.ts';

/** What a node does next about one of its LogicalVolumes. */
export type Step = 'create' | 'measure' | 'remove' | 'nothing';

export function nextStep(volume: StoredLogicalVolume): Step {
  const { annotations, finalizers = [] } = volume.metadata;
  // Its node was removed from the cluster and the claim let go: what is left on the disks is not ours to touch.
  if (annotations?.[pendingDeletionAnnotation] === 'true') return 'nothing';
  // Without our finalizer we have been here before, or somebody has taken the volume out of our hands.
  if (deleting(volume)) return finalizers.includes(logicalVolume.finalizer) ? 'remove' : 'nothing';
  // It was made, and may hold data: whatever is missing from its status, it is never made again.
  if (volume.status?.volumeID) return volume.status.currentSize ? 'nothing' : 'measure';
  // The controller tells its caller of a failure and deletes the object; trying again here would make a volume behind its back.
  return failureOf(volume) ? 'nothing' : 'create';
}
