import { deleting, failureOf, type StoredLogicalVolume } from '../logical-volume/logical-volume.ts';
import { logicalVolume, pendingDeletionAnnotation } from '../names.ts';

/** What a node does next about one of its LogicalVolumes. */
export type Step = 'create' | 'remove' | 'nothing';

export function nextStep(volume: StoredLogicalVolume): Step {
  const { annotations, finalizers = [] } = volume.metadata;
  // Its node was removed from the cluster and the claim let go: what is left on the disks is not ours to touch.
  if (annotations?.[pendingDeletionAnnotation] === 'true') return 'nothing';
  // Without our finalizer we have been here before, or somebody has taken the volume out of our hands.
  if (deleting(volume)) return finalizers.includes(logicalVolume.finalizer) ? 'remove' : 'nothing';
  // The controller tells its caller of a failure and deletes the object; trying again here would make a volume behind its back.
  if (failureOf(volume)) return 'nothing';
  if (volume.status?.volumeID && volume.status.currentSize) return 'nothing';
  return 'create';
}
