import { Gauge } from 'prom-client';
import { metrics } from '../names.ts';
import type { Pools } from '../storage/pools.ts';

/** The free room of each pool, read at the moment somebody asks. */
export function capacityGauge(nodeName: string, pools: Pick<Pools, 'all'>): Gauge {
  return new Gauge({
    name: metrics.volumeGroupAvailableBytes,
    help: 'Bytes that new volumes can still take, by device class.',
    labelNames: ['node', 'device_class'],
    registers: [],
    collect() {
      this.reset(); // classes come and go
      for (const pool of pools.all()) {
        if (pool.name === '') continue; // what lvmd elsewhere calls its default is there by its own name too
        this.set({ node: nodeName, device_class: pool.name }, Number(pool.capacity().freeBytes));
      }
    },
  });
}
