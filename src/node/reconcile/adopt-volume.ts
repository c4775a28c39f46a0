import {
  bytesOf,
  failureOf,
  isSnapshot,
  type LogicalVolume,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { adoptAnnotation, ephemeralTag } from '../../api/names.ts';
import { MoorageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/quantity.ts';
import { adoptedTag, createdTag } from '../../engine/names-and-tags.ts';
import type { Volume, VolumeId } from '../../engine/pool.ts';
import type { Pools } from '../../engine/pools.ts';
import type { Informer } from '../../kube/informer.ts';
import { mustHold } from '../../volumes/pool-holding.ts';

interface Surroundings {
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  /** The LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list'>;
}

/**
 * Finds the existing volume that the object names, and tags it with its new owner. Nothing else on the disk changes, and
 * nothing is created: an object for a lost cluster's data must not get an empty volume.
 */
export async function adoptVolume(
  object: StoredLogicalVolume,
  ownerTags: readonly string[],
  { pools, volumes }: Surroundings,
  signal: AbortSignal,
): Promise<Volume> {
  const id = object.metadata.annotations?.[adoptAnnotation] ?? '';
  const owner = volumes.list().find((other) => other.metadata.uid !== object.metadata.uid && claims(other, id));
  if (owner) throw new VolumeHasOwner(id, owner.metadata.name);
  const { pool, volume } = mustHold(pools, id);
  const refusal = unsuitable(object, volume);
  if (refusal) throw new NotAdoptable(id, refusal);
  // Without the tag of a volume that we created, nobody recorded what is on it: it must never be formatted.
  const isForeign = !volume.tags.includes(createdTag);
  return pool.addTags(id, [...ownerTags, ...(isForeign ? [adoptedTag] : [])], signal);
}

/** Whether an object has the volume, or is about to adopt it. */
function claims(object: StoredLogicalVolume, id: VolumeId): boolean {
  const isAdopting = object.metadata.annotations?.[adoptAnnotation] === id && !failureOf(object);
  return volumeIdOf(object) === id || isAdopting;
}

function unsuitable(object: StoredLogicalVolume, { sizeBytes, readOnly, tags }: Volume): string | undefined {
  if (tags.includes(ephemeralTag)) return 'it is an inline volume of a pod';
  if (readOnly !== isSnapshot(object)) {
    return readOnly
      ? 'it is read-only; set spec.accessType to ro and spec.source'
      : 'it is not a snapshot; remove spec.source';
  }
  if (bytesOf(object.spec.size) > sizeBytes) {
    return `it has ${formatBytes(sizeBytes)}, spec.size is ${object.spec.size}; request the size it has, and grow it later`;
  }
  return undefined;
}

export class VolumeHasOwner extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(id: string, owner: string) {
    super(`volume ${id} already belongs to LogicalVolume ${owner}; use that one`);
  }
}

export class NotAdoptable extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: string, reason: string) {
    super(`cannot adopt volume ${id}: ${reason}`);
  }
}
