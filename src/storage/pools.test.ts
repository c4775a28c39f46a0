import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pool } from './pool.ts';
import { Pools } from './pools.ts';

const pool = (name: string) => ({ name }) as Pool;

test('a class is found by its name, the default one by none', () => {
  const ssd = pool('ssd');
  const hdd = pool('hdd');
  const pools = new Pools([ssd, hdd], 'hdd');
  assert.equal(pools.get('ssd'), ssd);
  assert.equal(pools.get(''), hdd);
  assert.equal(pools.default, hdd);
  assert.deepEqual(pools.all(), [ssd, hdd]);
});

test('an unknown class is refused with those that are known', () => {
  const pools = new Pools([pool('ssd'), pool('hdd')], undefined);
  assert.throws(() => pools.get('nvme'), {
    code: 'NotFound',
    message: 'this node has no device class nvme; it has ssd, hdd',
  });
  assert.throws(() => pools.get(''), {
    code: 'NotFound',
    message: 'this node has no default device class; it has ssd, hdd',
  });
  assert.equal(pools.default, undefined);
});
