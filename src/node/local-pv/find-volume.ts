import { localPvUidTag } from '../../api/local-pv.ts';
import { PoolMissing } from '../../engine/errors.ts';
import { tagValue } from '../../engine/names-and-tags.ts';
import type { Pool, Volume } from '../../engine/pool.ts';
import { VolumeGroupNotServed, VolumeGroupUnavailable } from '../../engine/pool-of-group.ts';
import { DeviceClassNotFound, DeviceClassUnavailable } from '../../engine/pools.ts';
import type { Place } from '../../local-pv/options.ts';
import type { NodeEngine } from '../node-engine.ts';
import type { Found, Held } from './next-step.ts';

/** Where static volumes are: classes of the configuration, and volume groups. */
export type StaticVolumePools = Pick<NodeEngine, 'pools' | 'allPools' | 'serveGroups' | 'poolOfGroup'>;

export interface Identity {
  readonly name: string;
  readonly uid: string;
}

/** Throws if there is no such pool, or none now. */
export function poolAt({ pools, poolOfGroup }: StaticVolumePools, place: Place): Pool {
  return 'deviceClass' in place ? pools.get(place.deviceClass) : poolOfGroup(place.volumeGroup);
}

/** Whether the error of `poolAt` means that nothing can be there, rather than that it cannot be seen now. */
export function isNowhere(error: unknown): boolean {
  if (error instanceof DeviceClassNotFound || error instanceof VolumeGroupNotServed) return true;
  const isUnavailable = error instanceof DeviceClassUnavailable || error instanceof VolumeGroupUnavailable;
  return isUnavailable && error.cause instanceof PoolMissing;
}

/** The volume of a PersistentVolume: by its uid in any pool, else what has its name in the requested one. */
export function findVolume(pools: Pick<StaticVolumePools, 'allPools'>, { name, uid }: Identity, place: Pool): Found {
  const own = findOwn(pools, { name, uid }, place);
  if (own) return { kind: 'own', ...own };
  const volume = place.get(name);
  if (volume) return { kind: 'foreign', pool: place, volume };
  return { kind: place.erasures().some(({ id }) => id === name) ? 'erasing' : 'nothing', pool: place };
}

/** The volume whose tags name the PersistentVolume. Pools of one volume group may list the same volumes. */
export function findOwn(
  { allPools }: Pick<StaticVolumePools, 'allPools'>,
  { name, uid }: Identity,
  preferred?: Pool,
): Held | undefined {
  for (const pool of [preferred ?? [], ...allPools.all()].flat()) {
    const volume = pool.get(name);
    if (volume && isOf(uid, volume)) return { pool, volume };
  }
  return undefined;
}

/** Whether the tags of the volume name the PersistentVolume with this uid as its owner. */
export function isOf(uid: string, { tags }: Volume): boolean {
  return tagValue(tags, localPvUidTag) === uid;
}
