import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pools } from '../engine/pools.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { exposition } from '../metrics/metric.ts';
import { capacityMetrics } from './capacity-metrics.ts';

test('the metrics show the current capacity, and thin pool metrics only for thin classes', async () => {
  const pool = new InMemoryPool('ssd', 1000n);
  const thin = new InMemoryPool('thin', 500n);
  const usage = { dataPercent: 12.5, metadataPercent: 3, sizeBytes: 500n, overprovisionBytes: 900n };
  thin.capacity = () => ({ sizeBytes: 500n, freeBytes: 900n, thin: usage });
  const metrics = capacityMetrics('a', new Pools([pool, thin]));
  await pool.create({ id: 'v', sizeBytes: 300n, tags: [] });
  const lines = (await exposition(metrics)).split('\n').filter((line) => line.startsWith('topolvm_'));
  assert.deepEqual(lines, [
    'topolvm_volumegroup_available_bytes{node="a",device_class="ssd"} 700',
    'topolvm_volumegroup_available_bytes{node="a",device_class="thin"} 900',
    'topolvm_volumegroup_size_bytes{node="a",device_class="ssd"} 1000',
    'topolvm_volumegroup_size_bytes{node="a",device_class="thin"} 500',
    'topolvm_thinpool_data_percent{node="a",device_class="thin"} 12.5',
    'topolvm_thinpool_metadata_percent{node="a",device_class="thin"} 3',
    'topolvm_thinpool_size_bytes{node="a",device_class="thin"} 500',
    'topolvm_thinpool_overprovisioned_available{node="a",device_class="thin"} 900',
  ]);
});
