import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pools } from '../storage/pools.ts';
import { capacityGauge } from './capacity-gauge.ts';
import { InMemoryPool } from './in-memory-pool.ts';

test('the gauge shows the room of the moment', async () => {
  const pool = new InMemoryPool('ssd', 1000n);
  const gauge = capacityGauge('a', new Pools([pool]));
  await pool.create({ id: 'v', sizeBytes: 300n, tags: [] });
  const { name, values } = await gauge.get();
  assert.equal(name, 'topolvm_volumegroup_available_bytes');
  assert.deepEqual(
    values.map(({ value, labels }) => ({ value, labels })),
    [{ value: 700, labels: { node: 'a', device_class: 'ssd' } }],
  );
});
