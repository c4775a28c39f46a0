import { localPvAnnotations, localPvTag, type OnRelease } from '../../api/local-pv.ts';
import { ephemeralTag, volumeTag } from '../../api/names.ts';
import { MoorageError } from '../../base/errors.ts';
import { isGroupClass } from '../../engine/config/group-classes.ts';
import { VolumeBeingErased } from '../../engine/errors.ts';
import { adoptedTag, createdTag, isProvenUnused, tagValue } from '../../engine/names-and-tags.ts';
import type { Pool, Volume } from '../../engine/pool.ts';
import type { Place } from '../../local-pv/options.ts';
import type { StaticVolume } from '../../local-pv/static-volume.ts';

/** A volume on the disks of this node, and the pool that has it. */
export interface Held {
  readonly pool: Pool;
  readonly volume: Volume;
}

/** What the disks of this node have for a PersistentVolume. */
export type Found =
  /** The pool in which it should be has no volume with its name. */
  | { readonly kind: 'nothing'; readonly pool: Pool }
  /** There is no such pool, and nothing was created yet. */
  | { readonly kind: 'nowhere' }
  /** The data of a volume with its name is being erased, to remove or to empty it. */
  | { readonly kind: 'erasing'; readonly pool: Pool }
  /** The volume has the uid of the PersistentVolume in its tags. */
  | ({ readonly kind: 'own' } & Held)
  /** The volume only has the same name. */
  | ({ readonly kind: 'foreign' } & Held);

/** What the PersistentVolume says beside its request. */
export interface Orders {
  readonly isDeleting: boolean;
  /** A claim is bound to it. */
  readonly isBound: boolean;
  /** The agent has answered that the volume is gone. */
  readonly isRemoved: boolean;
  /** The uid of the deleted claim after which the volume must be released; undefined if there is nothing to release. */
  readonly releasedBy: string | undefined;
}

/** How a released volume is emptied. */
type Emptying = Exclude<OnRelease, 'keep'>;

/** Provides a volume, which is then mounted and shown. */
export type ProvidingStep =
  /** Creates the volume, or finishes the creation of this one. */
  | { readonly kind: 'create'; readonly pool: Pool; readonly unfinished?: Volume }
  /** Uses an existing volume with its data. */
  | ({ readonly kind: 'adopt' } & Held)
  /** Uses an existing volume if every byte of it is zero. */
  | ({ readonly kind: 'take if empty' } & Held)
  /** Empties the volume for the next claim. Without a volume that has already begun. */
  | { readonly kind: 'release'; readonly how: Emptying; readonly pool: Pool; readonly volume?: Volume }
  | ({ readonly kind: 'use' } & Held);

/** Ends with the answer that the volume of a deleted PersistentVolume is gone. */
export type EndingStep =
  /** Removes the volume. Without one that has already begun. */
  | { readonly kind: 'remove'; readonly pool: Pool; readonly volume?: Volume }
  /** Removes a volume that was processed, but is not tagged yet. */
  | ({ readonly kind: 'adopt and remove' } & Held)
  /** Removes no volume: none was used for the PersistentVolume yet. This one may be mounted. */
  | { readonly kind: 'confirm'; readonly volume?: Volume };

export type Step = ProvidingStep | EndingStep | { readonly kind: 'nothing' };

/** Decides what to do next for one PersistentVolume. Throws if that needs a person. */
export function nextStep(wanted: StaticVolume, orders: Orders, found: Found): Step {
  if (orders.isRemoved && orders.isDeleting) return { kind: 'nothing' };
  if (orders.isDeleting) return ofDeleted(wanted, orders, found);
  const how = orders.releasedBy !== undefined && wanted.onRelease !== 'keep' ? wanted.onRelease : undefined;
  switch (found.kind) {
    case 'nowhere':
      return { kind: 'nothing' };
    case 'nothing':
      if (wanted.isProcessed) throw new VolumeLost(wanted);
      return { ...found, kind: 'create' };
    case 'erasing':
      if (how === undefined) throw new VolumeBeingErased(wanted.name);
      return { ...found, kind: 'release', how };
    case 'foreign':
      mustBeFree(found.volume, wanted);
      return { ...found, kind: wanted.adopt ? 'adopt' : 'take if empty' };
    case 'own':
      mustBeInPlace(found, wanted.place);
      // Its creation may be unfinished, and it has no data yet.
      if (isProvenUnused(found.volume)) return { kind: 'create', pool: found.pool, unfinished: found.volume };
      return how === undefined ? { ...found, kind: 'use' } : { ...found, kind: 'release', how };
  }
}

/** Deleting the PersistentVolume orders the removal of its volume, but never of one that was not used for it yet. */
function ofDeleted(wanted: StaticVolume, { isBound }: Orders, found: Found): Step {
  if (isBound) return { kind: 'nothing' }; // the watch reports when the claim is gone
  switch (found.kind) {
    case 'nowhere':
    case 'nothing':
      return { kind: 'confirm' };
    case 'erasing':
      return { ...found, kind: 'remove' };
    case 'foreign': {
      const isIts = wanted.isProcessed && whyNotFree(found.volume, wanted) === undefined;
      return isIts ? { ...found, kind: 'adopt and remove' } : { kind: 'confirm' };
    }
    case 'own': {
      const { tags } = found.volume;
      const wasCreatedForIt = tags.includes(createdTag) && !tags.includes(adoptedTag);
      return wanted.isProcessed || wasCreatedForIt
        ? { ...found, kind: 'remove' }
        : { kind: 'confirm', volume: found.volume };
    }
  }
}

/** The request may have been changed since: a volume is never moved, and no second one is created. */
function mustBeInPlace({ pool, volume }: Held, requested: Place): void {
  const { volumeGroup = '' } = pool.details() ?? {};
  const isInPlace =
    'deviceClass' in requested ? requested.deviceClass === pool.name : requested.volumeGroup === volumeGroup;
  const actual: Place = isGroupClass(pool) ? { volumeGroup } : { deviceClass: pool.name };
  if (!isInPlace) throw new InOtherPlace(volume.id, actual, requested);
}

function mustBeFree(volume: Volume, wanted: StaticVolume): void {
  const reason = whyNotFree(volume, wanted);
  const mayBeAdopted = tagValue(volume.tags, localPvTag) !== undefined;
  if (reason !== undefined) throw new ExistingVolumeRefused(volume.id, reason, mayBeAdopted);
}

/** Why the volume belongs to somebody else; undefined if it may be used, with its data or if it has none. */
function whyNotFree({ tags, readOnly }: Volume, { adopt }: StaticVolume): string | undefined {
  if (tags.includes(ephemeralTag)) return 'it is an inline volume of a pod';
  const object = tagValue(tags, volumeTag);
  if (object !== undefined) return `it belongs to LogicalVolume ${object}`;
  if (readOnly) return 'it is read-only';
  const owner = tagValue(tags, localPvTag);
  if (owner === undefined || adopt) return undefined;
  return `it belonged to an earlier PersistentVolume ${owner}, and may hold its data`;
}

export class ExistingVolumeRefused extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(id: string, reason: string, mayBeAdopted = false) {
    const adoption = mayBeAdopted ? `set ${localPvAnnotations.adopt}: "true" to use it with its data, or ` : '';
    super(`the existing volume ${id} is not used: ${reason}; ${adoption}give the PersistentVolume another name`);
  }
}

export class InOtherPlace extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, actual: Place, requested: Place) {
    super(
      `volume ${id} is in ${nameOf(actual)}, not in ${nameOf(requested)}; a volume is never moved: ` +
        `request ${nameOf(actual)} again`,
    );
  }
}

export class VolumeLost extends MoorageError {
  readonly code = 'NotFound';

  constructor({ name, place }: StaticVolume) {
    super(
      `the volume was processed, but ${nameOf(place)} has no volume ${name} now, and nothing is created in its place: check ` +
        'whether a disk was replaced or the volume renamed; if its data is lost, see docs/static-volumes.md#remove',
    );
  }
}

function nameOf(place: Place): string {
  return 'deviceClass' in place ? `device class ${place.deviceClass}` : `volume group ${place.volumeGroup}`;
}
