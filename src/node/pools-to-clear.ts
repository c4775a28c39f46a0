import type { StoredLogicalVolume } from '../logical-volume/logical-volume.ts';
import { volumeIdOf } from '../logical-volume/logical-volume.ts';
import { heldByAnnotation } from '../names.ts';
import type { Pool } from '../storage/pool.ts';
import { DeviceClassNotFound, DeviceClassUnavailable, type Pools } from '../storage/pools.ts';
import { HolderNotKnown, poolToRemoveFrom } from './pool-holding.ts';

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
