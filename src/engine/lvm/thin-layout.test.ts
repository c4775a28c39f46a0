import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { extent, openThick, openThin, signal, volume } from './testing/simulated-pools.ts';

test('a thin pool allocates what its ratio allows, and no more', async () => {
  const { pool, lvm } = await openThin();
  assert.equal(pool.capacity().freeBytes, 250n * extent);
  await pool.create(volume('a', 200n), signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro', sizeBytes: 200n * extent }, signal).then(
    () => assert.fail('it allocated too much'),
    (error: Error) => assert.equal(error.name, 'PoolFull'),
  );
  await pool.grow('a', 249n * extent, signal);
  assert.equal(pool.capacity().freeBytes, extent);
  assert.deepEqual(lvm.commands, ['lvs', 'lvcreate', 'lvextend']);
});

test('a thin pool over a limit allocates nothing, by its current usage', async () => {
  const { pool, lvm, clock } = await openThin();
  await pool.create(volume('a'), signal);
  for (const usage of [
    { dataPercent: 90.01, metadataPercent: 0 },
    { dataPercent: 0, metadataPercent: 85.01 },
  ]) {
    lvm.usage = usage;
    clock.advance(6000);
    await assert.rejects(pool.create(volume('b'), signal), { name: 'ThinPoolFilling', code: 'ResourceExhausted' });
    await assert.rejects(pool.grow('a', 2n * extent, signal), { name: 'ThinPoolFilling' });
    await assert.rejects(pool.snapshot('a', { id: 'b', tags: [], access: 'rw' }, signal), { name: 'ThinPoolFilling' });
    assert.equal(pool.capacity().freeBytes, 0n);
    assert.match(pool.details().problem ?? '', /above max-(data|metadata)-percent/);
  }
  lvm.usage = { dataPercent: 90, metadataPercent: 85 };
  clock.advance(6000);
  await pool.create(volume('b'), signal);
  const { type, thinPool, usedBytes, problem } = pool.details();
  assert.deepEqual([type, thinPool, usedBytes, problem], ['thin', 'pool', 90n * extent, undefined]);
});

test('a thin pool is measured every 25 s only while it is half-way to one of its limits', async () => {
  const { pool, lvm, clock } = await openThin();
  let changes = 0;
  pool.onChange(() => changes++);
  const passes = async (ms: number) => {
    clock.advance(ms);
    await setImmediate();
  };
  lvm.usage = { dataPercent: 44, metadataPercent: 42 };
  await pool.refresh(signal);
  lvm.commands.length = 0;
  await passes(100_000);
  assert.deepEqual(lvm.commands, []);

  lvm.usage = { dataPercent: 44, metadataPercent: 43 };
  await pool.refresh(signal);
  lvm.commands.length = 0;
  changes = 0;
  await passes(25_000);
  assert.deepEqual([lvm.commands, changes], [['dmsetup'], 0], 'nothing changed');
  lvm.usage = { dataPercent: 91, metadataPercent: 43 };
  await passes(25_000);
  assert.equal(changes, 1);
  assert.deepEqual([pool.capacity().freeBytes, pool.capacity().thin?.dataPercent], [0n, 91]);

  lvm.fails = () => 'before';
  await passes(25_000);
  lvm.fails = () => undefined;
  lvm.usage = { dataPercent: 20, metadataPercent: 20 };
  await passes(25_000);
  assert.equal(pool.capacity().thin?.dataPercent, 20, 'a failed measurement is retried');
  assert.ok(pool.capacity().freeBytes > 0n);
  lvm.commands.length = 0;
  await passes(100_000);
  assert.deepEqual(lvm.commands, []);

  lvm.usage = { dataPercent: 60, metadataPercent: 20 };
  await pool.refresh(signal);
  await pool.stop(0);
  lvm.commands.length = 0;
  await passes(100_000);
  assert.deepEqual(lvm.commands, [], 'a stopped pool is not measured');
});

test('a volume that thin volumes read from is not removed', async () => {
  const { pool, lvm } = await openThick();
  await pool.create(volume('base'), signal);
  lvm.addForeign('child', 1);
  Object.assign(lvm.volumes.get('child') ?? {}, { pool: 'pool', origin: 'base' });
  await assert.rejects(pool.remove('base', signal), { name: 'VolumeHasSnapshots', message: /child/ });
  assert.deepEqual([...lvm.volumes.keys()], ['base', 'child']);
});
