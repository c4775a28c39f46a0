import {
  bytesOf,
  deleting,
  failureOf,
  type LogicalVolumeSpec,
  type LogicalVolumeStatus,
  type StoredLogicalVolume,
} from '../../api/logical-volume.ts';
import { adoptAnnotation, logicalVolume, pendingDeletionAnnotation } from '../../api/names.ts';

/** The next step of a node for one of its LogicalVolumes. */
export type Step = 'create' | 'adopt' | 'measure' | 'grow' | 'settle' | 'remove' | 'nothing';

export function nextStep(volume: StoredLogicalVolume): Step {
  const { annotations, finalizers = [] } = volume.metadata;
  // The node was removed from the cluster and the claim was released: the data on the disks must not be touched.
  if (annotations?.[pendingDeletionAnnotation] === 'true') return 'nothing';
  // Without our finalizer, the volume was already removed, or an administrator took it over.
  if (deleting(volume)) return finalizers.includes(logicalVolume.finalizer) ? 'remove' : 'nothing';
  // The volume was created and may contain data, so it is never re-created, whatever its status lacks.
  if (volume.status?.volumeID) return ofCreated(volume.spec, volume.status);
  // The controller reports the failure and deletes the object; a retry here would create a volume without its knowledge.
  if (failureOf(volume)) return 'nothing';
  return annotations?.[adoptAnnotation] ? 'adopt' : 'create';
}

function ofCreated({ size }: LogicalVolumeSpec, { currentSize, code = 0 }: LogicalVolumeStatus): Step {
  if (!currentSize) return 'measure';
  if (bytesOf(size) > bytesOf(currentSize)) return 'grow';
  return code === 0 ? 'nothing' : 'settle'; // a request to grow failed and was withdrawn
}
