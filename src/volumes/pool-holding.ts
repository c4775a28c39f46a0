import { type StoredLogicalVolume, volumeIdOf } from '../api/logical-volume.ts';
import { heldByAnnotation } from '../api/names.ts';
import { codeOf, type ErrorCode, MoorageError, messageOf } from '../base/errors.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { DeviceClassNotFound, DeviceClassUnavailable, type Pools, poolHolding } from '../engine/pools.ts';

/** The volume and its pool. A volume that no pool has may be in a class that cannot be served now. */
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

/** The pool that must remove the volume: the one that has it or is erasing it. */
export function poolToRemoveFrom(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  const isErasing = (pool: Pool) => pool.erasures().some((erasure) => erasure.id === id);
  return poolHolding(pools, id) ?? pools.all().find(isErasing);
}

/** Its code, and so whether a retry helps, is that of the cause. */
export class HolderUnavailable extends MoorageError {
  readonly code: ErrorCode;

  constructor(id: VolumeId, deviceClass: string, cause: unknown) {
    super(`volume ${id} may be in device class ${deviceClass}, which cannot be served now: ${messageOf(cause)}`, {
      cause,
    });
    this.code = codeOf(cause);
  }
}

/** The volume's class may have been removed from the configuration. */
export class HolderNotKnown extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string, volumeId: VolumeId, unavailable: readonly string[]) {
    const wait = unavailable.length > 0 ? `wait until ${unavailable.join(', ')} can be served, ` : '';
    super(
      `no device class that this node serves has volume ${volumeId}, and its class is unknown: ${wait}add a removed class ` +
        `to the configuration again, or set the class with kubectl annotate logicalvolume ${name} ${heldByAnnotation}=<class>`,
    );
  }
}

export class VolumeNotHere extends MoorageError {
  readonly code = 'NotFound';

  constructor(volumeId: string) {
    super(
      `volume ${volumeId} is not on the disks of this node; check with kubectl get logicalvolumes which node it is on, ` +
        'whether that machine or its disks were replaced, and that its device class is in the configuration',
    );
  }
}

type NodePools = Pick<Pools, 'get' | 'all' | 'unavailable'>;

/**
 * The pools that must confirm that the volume is gone: the one that has it, or else each that may have it, as a crash may
 * have hidden its creation. If it was certainly created, only its own class can confirm, not today's default. If its
 * class never existed and it was not created, there is nothing to remove.
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

/** The class of its volume according to the object; empty if it was created in the default class of that time. */
export function classOf({ metadata, spec }: StoredLogicalVolume): string {
  return metadata.annotations?.[heldByAnnotation] ?? spec.deviceClass ?? '';
}

/** The default class may have changed since, so every pool must confirm. */
function allOf(pools: NodePools): readonly Pool[] {
  for (const [name, error] of pools.unavailable()) throw new DeviceClassUnavailable(name, error);
  return pools.all();
}
