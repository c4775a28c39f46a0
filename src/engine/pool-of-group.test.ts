import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withGroupClasses } from './config/group-classes.ts';
import { PoolMissing } from './errors.ts';
import { poolOfGroup } from './pool-of-group.ts';
import { Pools } from './pools.ts';
import { InMemoryPool } from './testing/in-memory-pool.ts';

test('the pool of a volume group is found by the group, whatever its class is called', () => {
  const pools = new Pools([new InMemoryPool('hdd', 1n), new InMemoryPool('ssd', 1n)]);
  assert.equal(poolOfGroup(pools, [], 'vg-ssd').name, 'ssd');
});

test('without a pool, the error says why: the group cannot be served now, or no class is on it', () => {
  const pools = new Pools();
  const unavailable = new Map([['of volume group vg0', new PoolMissing('it is not on this node')]]);
  pools.become({ pools: [], defaultClass: undefined, unavailable });
  assert.throws(() => poolOfGroup(pools, withGroupClasses([], new Set(['vg0'])), 'vg0'), {
    code: 'Unavailable',
    message: 'volume group vg0 cannot be served now: it is not on this node',
  });
  assert.throws(() => poolOfGroup(pools, [], 'vg1'), {
    code: 'FailedPrecondition',
    message:
      /no thick device class is on volume group vg1; add one .* lvmd .*device class of volume group vg0 is unavailable: it is not/,
  });
});
