import { Gauge } from 'prom-client';
import { metrics } from '../names.ts';
import type { Pool } from '../storage/pool.ts';

/** The free room of each pool, read at the moment somebody asks. */
export function capacityGauge(nodeName: string, pools: readonly Pool[]): Gauge {
  return new Gauge({
    name: metrics.volumeGroupAvailableBytes,
    help: 'Bytes that new volumes can still take, by device class.',
    labelNames: ['node', 'device_class'],
    registers: [],
    collect() {
      for (const pool of pools) {
        this.set({ node: nodeName, device_class: pool.name }, Number(pool.capacity().freeBytes));
      }
    },
  });
}
