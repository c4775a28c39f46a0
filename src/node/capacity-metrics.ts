import { metrics } from '../api/names.ts';
import type { Capacity } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { gauge, type Metric } from '../metrics/metric.ts';

/** The room of each pool, read at the moment somebody asks. */
export function capacityMetrics(nodeName: string, pools: Pick<Pools, 'all'>): readonly Metric[] {
  const byClass = (name: string, help: string, read: (capacity: Capacity) => bigint | number | undefined) =>
    gauge({
      name,
      help,
      labelNames: ['node', 'device_class'],
      read: () =>
        pools.all().flatMap((pool) => {
          if (pool.name === '') return []; // what lvmd elsewhere calls its default is there by its own name too
          const value = read(pool.capacity());
          return value === undefined
            ? []
            : [{ labels: { node: nodeName, device_class: pool.name }, value: Number(value) }];
        }),
    });
  const by = 'by device class.';
  return [
    byClass(metrics.volumeGroupAvailableBytes, `Bytes that new volumes can still take, ${by}`, (its) => its.freeBytes),
    byClass(metrics.volumeGroupSizeBytes, `Bytes that there are in all, ${by}`, (its) => its.sizeBytes),
    byClass(metrics.thinPoolDataPercent, `How full a thin pool is, ${by}`, (its) => its.thin?.dataPercent),
    byClass(
      metrics.thinPoolMetadataPercent,
      `How full the metadata of a thin pool is, ${by}`,
      (its) => its.thin?.metadataPercent,
    ),
    byClass(metrics.thinPoolSizeBytes, `Bytes that a thin pool has, ${by}`, (its) => its.thin?.sizeBytes),
    byClass(
      metrics.thinPoolOverprovisionedAvailable,
      `Bytes that a thin pool can still promise, ${by}`,
      (its) => its.thin?.overprovisionBytes,
    ),
  ];
}
