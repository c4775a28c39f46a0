import { type StoredLogicalVolume, volumeIdOf } from '../api/logical-volume.ts';
import { heldByAnnotation } from '../api/names.ts';
import { codeOf, type ErrorCode, MoorageError, messageOf } from '../base/errors.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { DeviceClassNotFound, DeviceClassUnavailable, type Pools } from '../engine/pools.ts';

/** The pool that has the volume. A volume's id is unique on its node, and its class may have been renamed since. */
export function poolHolding(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  return pools.all().find((pool) => pool.get(id) !== undefined);
}

/** The volume and its pool. As long as a class cannot be served, it may have a volume that no other has. */
export function mustHold(
  pools: Pick<Pools, 'all' | 'unavailable'>,
  id: VolumeId,
): { readonly pool: Pool; readonly volume: Volume } {
  const pool = poolHolding(pools, id);
  const volume = pool?.get(id);
  if (pool && volume) return { pool, volume };
  for (const [name, error] of pools.unavailable()) throw new HolderUnavailable(id, name, error);
  throw new VolumeNotHere(id);
}

/** The pool that must remove the volume: it has it, or has begun to destroy its data. */
export function poolToRemoveFrom(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  const isErasing = (pool: Pool) => pool.erasures().some((erasure) => erasure.id === id);
  return poolHolding(pools, id) ?? pools.all().find(isErasing);
}

/** Whether that passes by itself depends on why the class cannot be served. */
export class HolderUnavailable extends MoorageError {
  readonly code: ErrorCode;

  constructor(id: VolumeId, deviceClass: string, cause: unknown) {
    super(`volume ${id} may be in device class ${deviceClass}, which cannot be served now: ${messageOf(cause)}`, {
      cause,
    });
    this.code = codeOf(cause);
  }
}

/** A class may have left the configuration with the volume in it. */
export class HolderNotKnown extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string, volumeId: VolumeId, unavailable: readonly string[]) {
    const wait = unavailable.length > 0 ? `wait until ${unavailable.join(', ')} can be served, ` : '';
    super(
      `no device class that this node serves has volume ${volumeId}, and which one had it is not known: ${wait}put a class that ` +
        `left back into the configuration, or name the class with kubectl annotate logicalvolume ${name} ${heldByAnnotation}=<class>`,
    );
  }
}

export class VolumeNotHere extends MoorageError {
  readonly code = 'NotFound';

  constructor(volumeId: string) {
    super(
      `this node has no volume ${volumeId}; check with kubectl get logicalvolumes which node it is on, ` +
        'and that its device class is in the configuration of that node',
    );
  }
}

type NodePools = Pick<Pools, 'get' | 'all' | 'unavailable'>;

/**
 * The pools that must say that the volume is gone: the one that has it, or else each that may have it. It may have been
 * made before a crash, and not be known yet. What was certainly made is gone only if the class that had it says so, and
 * not if today's default does; only where its class never was, nothing can be.
 */
export function poolsToClear(pools: NodePools, volume: StoredLogicalVolume): readonly Pool[] {
  const { metadata, status } = volume;
  const holder = poolToRemoveFrom(pools, volumeIdOf(volume));
  if (holder) return [holder];
  const deviceClass = classOf(volume);
  if (deviceClass === '' && status?.volumeID) {
    throw new HolderNotKnown(metadata.name, status.volumeID, [...pools.unavailable().keys()]);
  }
  if (deviceClass === '') return allOf(pools);
  try {
    return [pools.get(deviceClass)];
  } catch (error) {
    if (error instanceof DeviceClassNotFound && !status?.volumeID) return [];
    throw error;
  }
}

/** Where its volume is, as far as the object tells; empty if it was made in the default class of its time. */
export function classOf({ metadata, spec }: StoredLogicalVolume): string {
  return metadata.annotations?.[heldByAnnotation] ?? spec.deviceClass ?? '';
}

/** The default class may have been another one then, so each must be asked. */
function allOf(pools: NodePools): readonly Pool[] {
  for (const [name, error] of pools.unavailable()) throw new DeviceClassUnavailable(name, error);
  return pools.all();
}
