import {
  bytesOf,
  type LogicalVolume,
  recordedSourceOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { claimKey, moveAnnotation, volumeTag } from '../../api/names.ts';
import { MoorageError } from '../../base/errors.ts';
import { receivingKey } from '../../engine/names-and-tags.ts';
import type { Volume } from '../../engine/pool.ts';
import { type Pools, poolHolding } from '../../engine/pools.ts';
import type { Informer } from '../../kube/informer.ts';
import { mustHold } from '../../volumes/pool-holding.ts';

interface Collaborators {
  readonly pools: Pick<Pools, 'get' | 'all' | 'unavailable'>;
  /** The LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list'>;
}

/**
 * Creates the volume that the object requests, empty or as a copy. An existing one is found in any class: since its creation
 * the default class may have changed, and the source may have been removed.
 */
export async function createVolume(
  requested: StoredLogicalVolume,
  collaborators: Collaborators,
  signal: AbortSignal,
): Promise<Volume> {
  const { metadata, spec } = requested;
  const wanted = { id: metadata.uid, tags: [...ownerTags(requested), ...receivingTags(requested)] };
  if (spec.source) return copy(requested, wanted, collaborators, signal);
  const { size, deviceClass = '', lvcreateOptionClass: optionClass } = spec;
  const empty = { ...wanted, sizeBytes: bytesOf(size), ...(optionClass && { optionClass }) };
  const pool = poolHolding(collaborators.pools, wanted.id) ?? collaborators.pools.get(deviceClass);
  return pool.create(empty, signal);
}

/** Name the object and the claim on the disk, so that the owner of the data is known without the cluster. */
export function ownerTags({ metadata }: StoredLogicalVolume): readonly string[] {
  const claim = metadata.annotations?.[claimKey];
  return [`${volumeTag}=${metadata.name}`, ...(claim ? [`${claimKey}=${claim}`] : [])];
}

/** The target of a move cannot be used until the move has opened it. */
function receivingTags({ metadata }: StoredLogicalVolume): readonly string[] {
  const move = metadata.annotations?.[moveAnnotation];
  return move ? [`${receivingKey}=${move}`] : [];
}

/** A copy is in the pool of its source: only that pool can create it without moving data. */
async function copy(
  requested: StoredLogicalVolume,
  wanted: { readonly id: string; readonly tags: readonly string[] },
  { pools, volumes }: Collaborators,
  signal: AbortSignal,
): Promise<Volume> {
  const { size, accessType } = requested.spec;
  const sourceId = sourceIdOf(requested, volumes);
  const pool = poolHolding(pools, wanted.id) ?? mustHold(pools, sourceId).pool;
  // A snapshot has the current size of its source, which may have grown since the request.
  if (accessType === 'ro') return pool.snapshot(sourceId, { ...wanted, access: 'ro' }, signal);
  return pool.snapshot(sourceId, { ...wanted, access: 'rw', sizeBytes: bytesOf(size) }, signal);
}

/** From the annotation; an object created by TopoLVM names only the source's object. */
function sourceIdOf(requested: StoredLogicalVolume, volumes: Collaborators['volumes']): string {
  const recorded = recordedSourceOf(requested);
  if (recorded) return recorded.id;
  const { source = '' } = requested.spec;
  const found = volumes.list().find((other) => other.spec.name === source || other.metadata.name === source);
  if (!found) throw new SourceNotHere(source);
  return volumeIdOf(found);
}

export class SourceNotHere extends MoorageError {
  readonly code = 'NotFound';

  constructor(source: string) {
    super(`this node has no LogicalVolume ${source} to copy; request the copy on the node of its source`);
  }
}
