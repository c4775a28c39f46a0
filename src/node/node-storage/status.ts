import { listLimit, type NodeStorageStatus } from '../../api/node-storage.ts';
import { messageOf } from '../../base/errors.ts';
import { toQuantity } from '../../base/quantity.ts';
import { type ClassDetails, type DeviceClass, detailsOf } from '../../engine/config/device-classes.ts';
import type { Pool, PoolDetails } from '../../engine/pool.ts';
import type { Pools } from '../../engine/pools.ts';
import type { Orphan } from './orphans.ts';

/** All of the status but the time. */
export type Content = Omit<NodeStorageStatus, 'updatedAt'>;
type PoolStatus = Content['pools'][number];

export interface Facts extends Pick<Content, 'nodeUID' | 'versions' | 'features'> {
  /** Undefined if it is unknown. */
  readonly swap?: Content['swap'] | undefined;
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  /** Why the pools are only in their last known state. */
  readonly outdated?: string | undefined;
  /** Those of the pools, available or not; empty if another process has the configuration. */
  readonly deviceClasses: readonly DeviceClass[];
  readonly orphans: readonly Orphan[];
}

const worstFirst = ['Unavailable', 'Degraded', 'Healthy'] as const satisfies readonly PoolStatus['health'][];

/** What the NodeStorage of this node should say. */
export function contentOf(facts: Facts): Content {
  const { nodeUID, versions, features, swap, pools, outdated, deviceClasses, orphans } = facts;
  const named = pools.all().filter(({ name }) => name !== ''); // the default class of an lvmd is also listed by its name
  const unavailable = [...pools.unavailable()].map(([name, error]) =>
    unavailableStatus(
      name,
      error,
      deviceClasses.find((each) => each.name === name),
    ),
  );
  const erasures = named.flatMap((pool) => pool.erasures().map((erasure) => ({ deviceClass: pool.name, ...erasure })));
  const statuses = [...named.map((pool) => poolStatus(pool, outdated)), ...unavailable];
  return {
    nodeUID,
    health: worstFirst.find((health) => statuses.some((status) => status.health === health)) ?? 'Healthy',
    pools: statuses.toSorted((one, other) => (one.deviceClass < other.deviceClass ? -1 : 1)),
    erasures: {
      total: erasures.length,
      volumes: erasures.slice(0, listLimit).map(({ id, deviceClass, doneBytes, totalBytes }) => ({
        name: id,
        deviceClass,
        size: toQuantity(totalBytes),
        donePercent: totalBytes === 0n ? 100 : Number((doneBytes * 100n) / totalBytes),
      })),
    },
    orphans: {
      total: orphans.length,
      volumes: orphans.slice(0, listLimit).map(({ volume: { id, sizeBytes, readOnly, tags }, place, sinceMs }) => ({
        name: id,
        ...place,
        size: toQuantity(sizeBytes),
        ...(readOnly && { readOnly }),
        tags,
        since: timeOf(sinceMs),
      })),
    },
    versions,
    features,
    ...(swap && { swap }),
  };
}

function poolStatus(pool: Pool, outdated: string | undefined): PoolStatus {
  const { sizeBytes, freeBytes, thin } = pool.capacity();
  const details = pool.details();
  const problem = outdated ?? details?.problem;
  // Rounded up to whole percents, because a thin pool in use changes all the time.
  const dataPercent = Math.ceil(thin?.dataPercent ?? 0);
  const usedBytes = thin ? (sizeBytes * BigInt(dataPercent)) / 100n : details?.usedBytes;
  return {
    deviceClass: pool.name,
    ...(details ? whereOf(details) : thin && { type: 'thin' }),
    health: problem === undefined ? 'Healthy' : 'Degraded',
    ...(problem !== undefined && { reason: problem }),
    size: toQuantity(sizeBytes),
    ...(usedBytes !== undefined && { used: toQuantity(usedBytes) }),
    free: toQuantity(freeBytes),
    ...(details && { spare: toQuantity(details.spareBytes) }),
    volumes: pool.list().length,
    ...(thin && { thin: { dataPercent, metadataPercent: Math.ceil(thin.metadataPercent) } }),
  };
}

function unavailableStatus(name: string, error: unknown, deviceClass: DeviceClass | undefined): PoolStatus {
  return {
    deviceClass: name,
    ...(deviceClass && whereOf(detailsOf(deviceClass))),
    health: 'Unavailable',
    reason: messageOf(error),
  };
}

function whereOf({ type, isDefault, volumeGroup, thinPool, directory, ...rest }: ClassDetails | PoolDetails) {
  const volumeGroupUUID = 'volumeGroupUuid' in rest ? rest.volumeGroupUuid : undefined;
  return {
    default: isDefault,
    type,
    ...(volumeGroup && { volumeGroup }),
    ...(volumeGroupUUID && { volumeGroupUUID }),
    ...(thinPool && { thinPool }),
    ...(directory && { directory }),
  };
}

export function timeOf(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z');
}
