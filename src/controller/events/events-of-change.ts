import {
  currentBytes,
  failureOf,
  growthFailureOf,
  removalFailureOf,
  type StoredLogicalVolume,
} from '../../api/logical-volume.ts';
import {
  adoptAnnotation,
  erasedAnnotation,
  filesystemErrorAnnotation,
  neverUsedAnnotation,
  pendingDeletionAnnotation,
} from '../../api/names.ts';
import { toQuantity } from '../../base/quantity.ts';
import type { EventContent } from '../../kube/events.ts';
import type { Change } from '../../kube/object-cache.ts';

/**
 * What a change of a LogicalVolume means to the owner of its claim. For an object seen for the first time it reports only
 * current failures: an earlier leader reported the rest.
 */
export function eventsOfChange({ kind, object, previous }: Change<StoredLogicalVolume>): readonly EventContent[] {
  const events =
    kind === 'deleted'
      ? [removed(object)]
      : [answered(object, previous), found(object, previous), prepared(object, previous)];
  return events.filter((event) => event !== undefined);
}

/** What the node did, or why it could not. */
function answered(object: StoredLogicalVolume, previous: StoredLogicalVolume | undefined): EventContent | undefined {
  const { nodeName } = object.spec;
  const refusal = refusalOf(object);
  if (refusal) return refusal.message === (previous && refusalOf(previous)?.message) ? undefined : refusal;
  if (!previous) return undefined;
  const size = toQuantity(currentBytes(object));
  if (object.status?.volumeID && !previous.status?.volumeID) {
    const where = `on node ${nodeName}${classOf(object)}`;
    const isAdopted = object.metadata.annotations?.[adoptAnnotation] !== undefined;
    if (isAdopted) return normal('VolumeAdopted', 'Adopting', `adopted the existing volume of ${size} ${where}`);
    return normal('VolumeCreated', 'Creating', `created a volume of ${size} ${where}`);
  }
  const grew = previous.status?.currentSize && currentBytes(object) > currentBytes(previous);
  if (!grew) return undefined;
  const before = toQuantity(currentBytes(previous));
  return normal('VolumeGrown', 'Growing', `grew the volume on node ${nodeName} from ${before} to ${size}`);
}

function refusalOf(volume: StoredLogicalVolume): EventContent | undefined {
  const creation = failureOf(volume);
  if (creation) return warning(volume, 'VolumeRefused', 'Creating', `cannot create the volume: ${creation.message}`);
  const removal = removalFailureOf(volume);
  if (removal) return warning(volume, 'RemovalRefused', 'Removing', `cannot remove the volume: ${removal.message}`);
  const growth = growthFailureOf(volume);
  return growth && warning(volume, 'GrowthRefused', 'Growing', `cannot grow the volume: ${growth.message}`);
}

/**
 * Whether the volume is on the disks of its node. Nothing is created in its place: to its pod, an empty volume would look
 * like the old one without its data.
 */
function found(
  { spec, status }: StoredLogicalVolume,
  previous: StoredLogicalVolume | undefined,
): EventContent | undefined {
  const before = previous?.status?.missingFrom;
  if (!status?.missingFrom) {
    return before
      ? normal('VolumeFound', 'Finding', `the volume is on the disks of node ${spec.nodeName} again`)
      : undefined;
  }
  if (status.missingFrom === before) return undefined;
  const message =
    `volume ${status.volumeID} is not on the disks of node ${spec.nodeName}: the machine or its disks were replaced, ` +
    'or its device class was removed from the configuration; bring the disks or the class back, ' +
    'or see what kubectl moorage drop would give up, and restore a backup';
  return { type: 'Warning', reason: 'VolumeLost', action: 'Finding', message };
}

/** Why the node cannot create, mount or grow the filesystem. */
function prepared(object: StoredLogicalVolume, previous: StoredLogicalVolume | undefined): EventContent | undefined {
  const error = filesystemErrorOf(object);
  if (!error || error === (previous && filesystemErrorOf(previous))) return undefined;
  return warning(object, 'FilesystemRefused', 'Mounting', `cannot use the filesystem of the volume: ${error}`);
}

function filesystemErrorOf({ metadata }: StoredLogicalVolume): string | undefined {
  return metadata.annotations?.[filesystemErrorAnnotation];
}

/** The node has removed the volume, unless the node itself was removed. */
function removed({ metadata, spec, status }: StoredLogicalVolume): EventContent | undefined {
  if (!status?.volumeID) return undefined;
  if (metadata.annotations?.[pendingDeletionAnnotation]) {
    const message = `gave up the volume because node ${spec.nodeName} was removed; its data is still on that machine`;
    return { type: 'Warning', reason: 'VolumeGivenUp', action: 'Removing', message };
  }
  if (status.missingFrom) {
    const message = `gave up the volume, which was not on the disks of node ${spec.nodeName}`;
    return { type: 'Warning', reason: 'VolumeGivenUp', action: 'Removing', message };
  }
  if (metadata.annotations?.[neverUsedAnnotation]) {
    const message =
      `removed volume ${metadata.name} from node ${spec.nodeName}: the claim that it was created for was deleted ` +
      'meanwhile, and it was never used';
    return normal('UnclaimedVolumeRemoved', 'Removing', message);
  }
  if (metadata.annotations?.[erasedAnnotation]) {
    return normal('VolumeErased', 'Removing', `erased the volume and removed it from node ${spec.nodeName}`);
  }
  return normal('VolumeRemoved', 'Removing', `removed the volume from node ${spec.nodeName}`);
}

function classOf({ spec }: StoredLogicalVolume): string {
  return spec.deviceClass ? `, device class ${spec.deviceClass}` : '';
}

function warning({ spec }: StoredLogicalVolume, reason: string, action: string, message: string): EventContent {
  return { type: 'Warning', reason, action, message: `node ${spec.nodeName} ${message}` };
}

function normal(reason: string, action: string, message: string): EventContent {
  return { type: 'Normal', reason, action, message };
}
