import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Listeners } from '../base/listeners.ts';
import { PoolMissing } from './errors.ts';
import type { Pool } from './pool.ts';
import { Pools } from './pools.ts';

function pool(name: string) {
  const listeners = new Listeners();
  const onChange = (listener: () => void) => listeners.add(listener);
  return { pool: { name, onChange } as Pool, change: () => listeners.notify() };
}

const { pool: ssd, change: changeSsd } = pool('ssd');
const { pool: hdd, change: changeHdd } = pool('hdd');

test('a class is found by its name, the default class by the empty name', () => {
  const pools = new Pools([ssd, hdd], 'hdd');
  assert.equal(pools.get('ssd'), ssd);
  assert.equal(pools.get(''), hdd);
  assert.equal(pools.default, hdd);
  assert.deepEqual(pools.all(), [ssd, hdd]);
});

test('an unknown class is refused with a list of the known ones', () => {
  const pools = new Pools([ssd, hdd]);
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

test('a class without its volume group is refused with the reason, by its name and as the default', () => {
  const pools = new Pools();
  const unavailable = new Map([['hdd', new PoolMissing('volume group vg is not on this node')]]);
  pools.become({ pools: [ssd], defaultClass: 'hdd', unavailable });
  for (const name of ['hdd', '']) {
    assert.throws(() => pools.get(name), {
      code: 'Unavailable',
      message: 'device class hdd cannot be served now: volume group vg is not on this node',
    });
  }
  assert.equal(pools.default, undefined);
  assert.throws(() => pools.get('nvme'), { message: 'this node has no device class nvme; it has ssd, hdd' });
});

test('listeners are notified of each change of a pool, and when pools are added and removed', () => {
  const pools = new Pools([ssd]);
  let calls = 0;
  const stop = pools.onChange(() => calls++);
  changeSsd();
  assert.equal(calls, 1);
  pools.become({ pools: [hdd], defaultClass: undefined, unavailable: new Map() });
  assert.equal(calls, 2);
  changeSsd(); // removed, so not counted
  changeHdd();
  assert.equal(calls, 3);
  stop();
  changeHdd();
  assert.equal(calls, 3);
});
