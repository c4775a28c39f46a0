import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceClass } from '../../engine/config/device-classes.ts';
import type { PoolDetails } from '../../engine/pool.ts';
import { type PoolSet, Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { contentOf, type Facts } from './status.ts';

const gibi = 1024n ** 3n;

function content(set: Partial<PoolSet>, facts: Partial<Facts> = {}) {
  const pools = new Pools();
  pools.become({ pools: [], defaultClass: undefined, unavailable: new Map(), ...set });
  return contentOf({ nodeUID: 'u', versions: {}, features: {}, pools, deviceClasses: [], orphans: [], ...facts });
}

class DescribedPool extends InMemoryPool {
  described: PoolDetails | undefined;

  override details(): PoolDetails {
    return this.described as PoolDetails;
  }
}

test('a pool is reported with its volume group, its space and its volumes', async () => {
  const pool = new InMemoryPool('ssd', 10n * gibi);
  await pool.create({ id: 'a', sizeBytes: 3n * gibi, tags: [] });
  assert.deepEqual(content({ pools: [pool] }).pools, [
    {
      deviceClass: 'ssd',
      default: false,
      type: 'thick',
      volumeGroup: 'vg-ssd',
      volumeGroupUUID: 'uuid-ssd',
      health: 'Healthy',
      size: '10Gi',
      used: '3Gi',
      free: '7Gi',
      spare: '0',
      volumes: 1,
    },
  ]);
});

test('the usage of a thin pool is rounded up to whole percents, so that it seldom changes', () => {
  const pool = new DescribedPool('thin', gibi);
  pool.described = {
    type: 'thin',
    isDefault: true,
    volumeGroup: 'vg0',
    volumeGroupUuid: 'x-y',
    thinPool: 'pool0',
    spareBytes: 0n,
    usedBytes: 123n,
    problem: 'nearly full',
  };
  pool.capacity = () => ({
    sizeBytes: 100n * gibi,
    freeBytes: 0n,
    thin: { dataPercent: 90.01, metadataPercent: 3, sizeBytes: 100n * gibi, overprovisionBytes: gibi },
  });
  const {
    health: worst,
    pools: [reported],
  } = content({ pools: [new InMemoryPool('zzz', 1n), pool] });
  assert.equal(worst, 'Degraded');
  assert.deepEqual(reported?.thin, { dataPercent: 91, metadataPercent: 3 });
  const { used, thinPool, health, reason } = reported ?? {};
  assert.deepEqual([used, thinPool, health, reason], ['91Gi', 'pool0', 'Degraded', 'nearly full']);
});

test("what TopoLVM's lvmd does not report is absent, its default class is listed once, and its absence is reported", () => {
  const [ssd, unnamed] = [new DescribedPool('ssd', gibi), new DescribedPool('', gibi)];
  const described = { deviceClass: 'ssd', size: '1Gi', free: '1Gi', volumes: 0 };
  const set = { pools: [ssd, unnamed], defaultClass: '' };
  assert.deepEqual(content(set).pools, [{ ...described, health: 'Healthy' }]);
  const outdated = 'no lvmd answers';
  assert.deepEqual(content(set, { outdated }).pools, [{ ...described, health: 'Degraded', reason: outdated }]);
});

test('a class that cannot be served is unavailable with the reason, and where it should be', () => {
  const files: DeviceClass = {
    type: 'file',
    name: 'files',
    path: '/data',
    isDefault: true,
    spareBytes: 0n,
    erase: { kind: 'none' },
  };
  const unavailable = new Map([
    ['files', new Error('/data is not mounted')],
    ['elsewhere', new Error('unknown')],
  ]);
  const { health, pools } = content({ unavailable, pools: [new InMemoryPool('zzz', 1n)] }, { deviceClasses: [files] });
  assert.equal(health, 'Unavailable');
  assert.deepEqual(pools, [
    { deviceClass: 'elsewhere', health: 'Unavailable', reason: 'unknown' },
    {
      deviceClass: 'files',
      default: true,
      type: 'file',
      directory: '/data',
      health: 'Unavailable',
      reason: '/data is not mounted',
    },
    { ...content({ pools: [new InMemoryPool('zzz', 1n)] }).pools[0], deviceClass: 'zzz' },
  ]);
});

test('long lists are cut, and the total says so', async () => {
  const pool = new InMemoryPool('ssd', 1000n);
  pool.erasing = Array.from({ length: 101 }, (_, i) => ({ id: `e${i}`, doneBytes: 1n, totalBytes: 3n }));
  const volume = await pool.create({ id: 'v', sizeBytes: 1n, tags: ['moorage.dev/claim=ns/data'] });
  const orphans = Array.from({ length: 102 }, () => ({ place: { deviceClass: 'ssd' }, volume, sinceMs: 1500 }));
  const found = content({ pools: [pool] }, { orphans });
  assert.deepEqual([found.erasures.total, found.erasures.volumes.length], [101, 100]);
  assert.deepEqual(found.erasures.volumes[0], { name: 'e0', deviceClass: 'ssd', size: '3', donePercent: 33 });
  assert.deepEqual([found.orphans.total, found.orphans.volumes.length], [102, 100]);
  const tags = ['moorage.dev/claim=ns/data'];
  assert.deepEqual(found.orphans.volumes[0], {
    ...{ name: 'v', deviceClass: 'ssd', size: '1', tags },
    since: '1970-01-01T00:00:01Z',
  });

  const snapshot = { place: { volumeGroup: 'old' }, volume: { ...volume, readOnly: true }, sinceMs: 0 };
  const [reported] = content({ pools: [pool] }, { orphans: [snapshot] }).orphans.volumes;
  assert.deepEqual([reported?.readOnly, reported?.volumeGroup, reported?.deviceClass], [true, 'old', undefined]);
});
