import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Capacity, Pool, Volume } from '../engine/pool.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { healthy } from '../engine/volume-health.ts';
import { volumeStats } from './volume-stats.ts';

/** A filesystem that is always mounted. */
const mounted = '/proc';

async function poolWith(changes: Partial<Volume> = {}, capacity?: Capacity): Promise<Pool> {
  const pool = new InMemoryPool('ssd', 4096n);
  const volume = await pool.create({ id: 'v', sizeBytes: 1n, tags: [] });
  pool.get = (id) => (id === 'v' ? { ...volume, ...changes } : undefined);
  if (capacity) pool.capacity = () => capacity;
  return pool;
}

const thin = (dataPercent: number, metadataPercent: number): Capacity => ({
  sizeBytes: 1n,
  freeBytes: 1n,
  thin: { dataPercent, metadataPercent, sizeBytes: 1n, overprovisionBytes: 0n },
});

test('a volume that is not at the path is not found', async () => {
  const pool = await poolWith();
  for (const path of ['/no/such/path', '/proc/version/below', '/proc/self', '/proc/version']) {
    await assert.rejects(volumeStats('v', path, pool), {
      code: 'NotFound',
      message: `volume v is not at ${path}; publish or stage it there first`,
    });
  }
});

test('a problem of the volume itself is reported before one of its thin pool', async () => {
  const conditionOf = async (pool: Pool) => (await volumeStats('v', mounted, pool)).condition;
  assert.equal(await conditionOf(await poolWith()), healthy);
  assert.equal(await conditionOf(await poolWith({}, thin(99.9, 99.9))), healthy);
  const full = [
    [thin(100, 5), /no space left for data; extend/],
    [thin(5, 100), /no space left for metadata; extend/],
  ] as const;
  for (const [capacity, message] of full) {
    const condition = await conditionOf(await poolWith({}, capacity));
    assert.equal(condition.isAbnormal, true);
    assert.match(condition.message, message);
  }
  const partial = await conditionOf(await poolWith({ attr: 'rwi-a-r-p-' }, thin(100, 100)));
  assert.match(partial.message, /one of its disks is missing/);
});

test('a volume that no pool has is abnormal, even if its filesystem is healthy', async () => {
  const { condition, usage } = await volumeStats('v', mounted, undefined);
  assert.equal(condition.isAbnormal, true);
  assert.match(condition.message, /^no device class of this node has volume v;/);
  assert.equal(usage[0]?.unit, 'bytes');
});
