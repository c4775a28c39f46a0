import { localPvAnnotations, localPvFinalizer, localPvOptions, localPvStatus } from '../../api/local-pv.ts';
import type { EventContent } from '../../kube/events.ts';
import type { PersistentVolume, Stored } from '../../kube/resource.ts';
import { unknownAnnotations } from '../../local-pv/static-volume.ts';

type Volume = Stored<PersistentVolume>;

export interface StaticVolumeChange {
  readonly kind: 'added' | 'updated' | 'deleted';
  readonly object: Volume;
  readonly previous: Volume | undefined;
}

/**
 * What a change of a static volume means to its administrator. For one seen for the first time it reports only current
 * failures: an earlier leader reported the rest. `keepsData` says whether auto-release keeps the data of a volume.
 */
export function eventsOfChange(
  { kind, object, previous }: StaticVolumeChange,
  keepsData: (volume: Volume) => boolean,
): readonly EventContent[] {
  const events =
    kind === 'deleted'
      ? [removed(object)]
      : [
          misspelt(object, previous),
          previous && found(object, previous),
          previous && processed(object, previous),
          failed(object, previous),
          previous && emptied(object, previous),
          previous && kept(object, previous, keepsData),
        ];
  return events.filter((event) => event !== undefined);
}

function misspelt(object: Volume, previous: Volume | undefined): EventContent | undefined {
  const known = new Set(previous && unknownAnnotations(previous));
  const unknown = unknownAnnotations(object).filter((name) => !known.has(name));
  if (unknown.length === 0) return undefined;
  const options = Object.values(localPvOptions).join(', ');
  return warning('UnknownAnnotation', 'Reading', `${unknown.join(', ')} has no effect; options are ${options}`);
}

function found(object: Volume, previous: Volume): EventContent | undefined {
  const isNew = isHeld(object) && (!isHeld(previous) || nodeOf(object) !== nodeOf(previous));
  return isNew ? normal('NodeFound', 'Finding', `found node ${nodeOf(object)} by the node affinity`) : undefined;
}

function processed(object: Volume, previous: Volume): EventContent | undefined {
  const isProcessed = ({ metadata }: Volume) =>
    metadata.annotations?.[localPvAnnotations.status] === localPvStatus.processed;
  if (!isHeld(object) || !isProcessed(object) || isProcessed(previous)) return undefined;
  const { [localPvAnnotations.size]: size, [localPvOptions.fsType]: filesystem } = object.metadata.annotations ?? {};
  const message = `the volume of ${size} is mounted on node ${nodeOf(object)}, with ${filesystem}`;
  return normal('VolumeProcessed', 'Creating', message);
}

function failed(object: Volume, previous: Volume | undefined): EventContent | undefined {
  const message = messageOf(object);
  if (message === undefined || message === (previous && messageOf(previous))) return undefined;
  return warning('NotProcessed', 'Creating', isHeld(object) ? `node ${nodeOf(object)}: ${message}` : message);
}

function emptied({ spec }: Volume, previous: Volume): EventContent | undefined {
  const { claimRef } = previous.spec ?? {};
  const emptiedAfter = previous.metadata.annotations?.[localPvAnnotations.released];
  if (spec?.claimRef || !claimRef?.uid || claimRef.uid !== emptiedAfter) return undefined;
  const claim = `claim ${claimRef.namespace}/${claimRef.name}`;
  return normal('VolumeEmptied', 'Releasing', `emptied after ${claim} was deleted, and available again`);
}

function kept(object: Volume, previous: Volume, keepsData: (volume: Volume) => boolean): EventContent | undefined {
  const { metadata, spec, status } = object;
  if (status?.phase !== 'Released' || previous.status?.phase === 'Released' || !keepsData(object)) return undefined;
  const claim = `claim ${spec?.claimRef?.namespace}/${spec?.claimRef?.name}`;
  const message =
    `no claim gets the volume, which has the data of ${claim}, because ${localPvOptions.onRelease} is keep; ` +
    `to give it to one: kubectl moorage reattach pv/${metadata.name}`;
  return normal('DataKept', 'Releasing', message);
}

/** The agent has removed the volume, unless the finalizer was removed without it. */
function removed(object: Volume): EventContent | undefined {
  const node = nodeOf(object);
  if (node === undefined) return undefined;
  if (object.metadata.annotations?.[localPvAnnotations.removed] === 'true') {
    return normal('VolumeRemoved', 'Removing', `removed the volume from node ${node}`);
  }
  const message = `gave up the volume, because node ${node} could not remove it; its data is still on the disks of that machine`;
  return warning('VolumeGivenUp', 'Removing', message);
}

function isHeld({ metadata }: Volume): boolean {
  return metadata.finalizers?.includes(localPvFinalizer) ?? false;
}

function nodeOf({ metadata }: Volume): string | undefined {
  return metadata.annotations?.[localPvAnnotations.node];
}

function messageOf({ metadata }: Volume): string | undefined {
  return metadata.annotations?.[localPvAnnotations.message];
}

function warning(reason: string, action: string, message: string): EventContent {
  return { type: 'Warning', reason, action, message };
}

function normal(reason: string, action: string, message: string): EventContent {
  return { type: 'Normal', reason, action, message };
}
