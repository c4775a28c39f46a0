import { metrics } from '../api/names.ts';
import type { Capacity } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { gauge, type Metric } from '../metrics/metric.ts';

/** The capacity of each pool, read at each scrape. */
export function capacityMetrics(nodeName: string, pools: Pick<Pools, 'all'>): readonly Metric[] {
  const byClass = (name: string, help: string, read: (capacity: Capacity) => bigint | number | undefined) =>
    gauge({
      name,
      help,
      labelNames: ['node', 'device_class'],
      read: () =>
        pools.all().flatMap((pool) => {
          if (pool.name === '') return []; // the default class of a remote lvmd is also there by its name
          const value = read(pool.capacity());
          return value === undefined
            ? []
            : [{ labels: { node: nodeName, device_class: pool.name }, value: Number(value) }];
        }),
    });
  const by = 'by device class.';
  return [
    byClass(
      metrics.volumeGroupAvailableBytes,
      `Bytes available for new volumes, ${by}`,
      (capacity) => capacity.freeBytes,
    ),
    byClass(metrics.volumeGroupSizeBytes, `Total bytes, ${by}`, (capacity) => capacity.sizeBytes),
    byClass(
      metrics.thinPoolDataPercent,
      `Data usage of a thin pool in percent, ${by}`,
      (capacity) => capacity.thin?.dataPercent,
    ),
    byClass(
      metrics.thinPoolMetadataPercent,
      `Metadata usage of a thin pool in percent, ${by}`,
      (capacity) => capacity.thin?.metadataPercent,
    ),
    byClass(metrics.thinPoolSizeBytes, `Size of a thin pool in bytes, ${by}`, (capacity) => capacity.thin?.sizeBytes),
    byClass(
      metrics.thinPoolOverprovisionedAvailable,
      `Bytes that a thin pool can still promise, ${by}`,
      (capacity) => capacity.thin?.overprovisionBytes,
    ),
  ];
}
