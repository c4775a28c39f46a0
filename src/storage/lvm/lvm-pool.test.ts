import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { CommandFailed } from '../../base/exec.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import { silentLog } from '../../base/log.ts';
import type { ThickClass } from '../device-classes.ts';
import { createdTag } from '../tags.ts';
import { Lvm } from './lvm.ts';
import { LvmPool } from './lvm-pool.ts';
import { SimulatedLvm } from './simulated-lvm.ts';

const signal = new AbortController().signal;
const extent = 4194304n;

async function open({ extents = 100, ...deviceClass }: Partial<ThickClass> & { extents?: number } = {}) {
  const simulated = new SimulatedLvm(extents);
  const pool = await LvmPool.open(
    {
      deviceClass: {
        type: 'thick',
        name: 'ssd',
        isDefault: true,
        spareBytes: 0n,
        volumeGroup: 'vg',
        stripes: 0,
        stripeSize: undefined,
        lvcreateOptions: [],
        snapshots: 'none',
        erase: { kind: 'none' },
        ...deviceClass,
      },
      lvm: new Lvm({ command: ['lvm'], run: simulated.run, env: {} }),
      lock: new KeyedLock(),
      log: silentLog,
    },
    signal,
  );
  simulated.commands.length = 0;
  return { pool, lvm: simulated };
}

const volume = (id: string, extents = 1n) => ({ id, sizeBytes: extents * extent, tags: [] });

test('a creation and a removal are one command each, and memory follows', async () => {
  const { pool, lvm } = await open();
  const made = await pool.create({ id: 'a', sizeBytes: extent + 1n, tags: ['claim=x'] }, signal);
  assert.deepEqual(made, {
    id: 'a',
    sizeBytes: 2n * extent,
    devicePath: '/dev/vg/a',
    tags: ['claim=x', createdTag],
    readOnly: false,
    attr: '-wi-a-----',
  });
  assert.deepEqual(pool.list(), [made]);
  assert.deepEqual(pool.capacity(), { sizeBytes: 100n * extent, freeBytes: 98n * extent });

  await pool.remove('a', signal);
  assert.deepEqual(pool.list(), []);
  assert.equal(pool.capacity().freeBytes, 100n * extent);
  assert.deepEqual(lvm.commands, ['lvcreate', 'lvremove']);
});

test('a creation repeated returns the volume and runs nothing', async () => {
  const { pool, lvm } = await open();
  const made = await pool.create(volume('a', 5n), signal);
  assert.equal(await pool.create(volume('a', 3n), signal), made);
  await assert.rejects(pool.create(volume('a', 6n), signal), { name: 'VolumeExists', code: 'AlreadyExists' });
  assert.deepEqual(lvm.commands, ['lvcreate']);
});

test('spare space is kept free at creation and at growth', async () => {
  const { pool } = await open({ extents: 10, spareBytes: 4n * extent });
  assert.equal(pool.capacity().freeBytes, 6n * extent);
  await assert.rejects(pool.create(volume('a', 7n), signal), { name: 'PoolFull', code: 'ResourceExhausted' });
  await pool.create(volume('a', 5n), signal);
  await assert.rejects(pool.grow('a', 7n * extent, signal), { name: 'PoolFull' });
  assert.equal((await pool.grow('a', 6n * extent, signal)).sizeBytes, 6n * extent);
  assert.equal(pool.capacity().freeBytes, 0n);
});

test('a pool whose spare is larger than what is free has nothing to give, not less than nothing', async () => {
  const { pool } = await open({ extents: 10, spareBytes: 400n * extent });
  assert.equal(pool.capacity().freeBytes, 0n);
});

test('many at once never take more than there is', async () => {
  const { pool, lvm } = await open({ extents: 10, spareBytes: 2n * extent });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => pool.create(volume(`v${i}`, 2n), signal)),
  );
  assert.equal(outcomes.filter((outcome) => outcome.status === 'fulfilled').length, 4);
  assert.equal(lvm.freeExtents, 2);
});

test('stripes take whole rows', async () => {
  const { pool } = await open({ stripes: 3 });
  assert.equal((await pool.create(volume('a', 4n), signal)).sizeBytes, 6n * extent);
});

test('a command that failed after it had done its work is found out, and the retry returns the volume', async () => {
  const { pool, lvm } = await open();
  lvm.fails = (subcommand) => (subcommand === 'lvcreate' ? 'after' : undefined);
  await assert.rejects(pool.create(volume('a'), signal), CommandFailed);
  assert.equal(pool.capacity().freeBytes, 99n * extent);
  assert.equal((await pool.create(volume('a'), signal)).id, 'a');
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
});

test('a caller that leaves does not stop what has begun', async () => {
  const { pool, lvm } = await open();
  const abort = new AbortController();
  const creation = pool.create(volume('a'), abort.signal);
  const waiting = pool.create(volume('b'), abort.signal);
  while (lvm.commands.length === 0) await Promise.resolve();
  abort.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  assert.equal((await creation).id, 'a');
  assert.deepEqual([...lvm.volumes.keys()], ['a']);
});

test('as long as LVM cannot be read after a failure, nothing is changed', async () => {
  const { pool, lvm } = await open();
  lvm.fails = () => 'before';
  await assert.rejects(pool.create(volume('a'), signal));
  lvm.commands.length = 0;
  await assert.rejects(pool.create(volume('a'), signal));
  assert.deepEqual(lvm.commands, ['fullreport']);
  lvm.fails = () => undefined;
  await pool.create(volume('a'), signal);
  assert.deepEqual(lvm.commands, ['fullreport', 'fullreport', 'lvcreate']);
});

test('space that somebody else took is told as a full pool', async () => {
  const { pool, lvm } = await open({ extents: 10 });
  lvm.volumes.set('foreign', { extents: 8, tags: [] });
  await assert.rejects(pool.create(volume('a', 5n), signal), { name: 'PoolFull' });
  assert.equal(pool.capacity().freeBytes, 2n * extent);
});

test('a volume that memory does not know is looked for before it is called removed', async () => {
  const { pool, lvm } = await open();
  lvm.volumes.set('late', { extents: 1, tags: [] });
  await pool.remove('late', signal);
  assert.equal(lvm.volumes.size, 0);
  await pool.remove('late', signal);
  assert.deepEqual(lvm.commands, ['fullreport', 'lvremove', 'fullreport']);
});

test('tags are added once', async () => {
  const { pool, lvm } = await open();
  await pool.create({ ...volume('a'), tags: ['one'] }, signal);
  assert.deepEqual((await pool.addTags('a', ['one', 'two'], signal)).tags, ['one', createdTag, 'two']);
  await pool.addTags('a', ['two'], signal);
  assert.deepEqual(lvm.commands, ['lvcreate', 'lvchange']);
  assert.deepEqual(lvm.volumes.get('a')?.tags, ['one', createdTag, 'two']);
  await assert.rejects(pool.addTags('b', ['one'], signal), { name: 'VolumeNotFound' });
});

test('names that LVM would not take never reach it', async () => {
  const { pool, lvm } = await open();
  await assert.rejects(pool.create(volume('../etc'), signal), { name: 'InvalidInput' });
  await assert.rejects(pool.create({ ...volume('a'), tags: ['a b'] }, signal), { name: 'InvalidInput' });
  assert.deepEqual(lvm.commands, []);
});

test('with options of its own a class lets LVM say what a volume took', async () => {
  const { pool, lvm } = await open({ lvcreateOptions: ['--type', 'raid1'] });
  await pool.create(volume('a'), signal);
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
});

test('listeners hear of each change until they stop', async () => {
  const { pool } = await open();
  let changes = 0;
  const stop = pool.onChange(() => changes++);
  await pool.create(volume('a'), signal);
  assert.equal(changes, 1);
  await pool.create(volume('a'), signal);
  assert.equal(changes, 1);
  await pool.remove('a', signal);
  assert.equal(changes, 2);
  stop();
  await pool.create(volume('b'), signal);
  assert.equal(changes, 2);
});

const id = fc.constantFrom('a', 'b', 'c');
const size = fc.bigInt({ min: 1n, max: 12n * extent });
const failure = fc.constantFrom('before' as const, 'after' as const, undefined, undefined, undefined);
const action = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), id, size, failure }),
  fc.record({ kind: fc.constant('grow' as const), id, size, failure }),
  fc.record({ kind: fc.constant('remove' as const), id, failure }),
  fc.record({ kind: fc.constant('tag' as const), id, failure }),
);

test('whatever is asked and whatever fails, memory is what LVM has and the spare is kept', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
      const { pool, lvm } = await open({ extents: 20, spareBytes: 3n * extent });
      for (const step of actions) {
        lvm.fails = (subcommand) => (subcommand === 'fullreport' ? undefined : step.failure);
        const work =
          step.kind === 'create'
            ? pool.create({ id: step.id, sizeBytes: step.size, tags: [] }, signal)
            : step.kind === 'grow'
              ? pool.grow(step.id, step.size, signal)
              : step.kind === 'tag'
                ? pool.addTags(step.id, ['tag'], signal)
                : pool.remove(step.id, signal);
        await work.catch(() => undefined); // refused or failed: either way the two must agree

        assert.ok(lvm.freeExtents >= 3, 'the spare was given away');
        assert.equal(pool.capacity().freeBytes, BigInt(lvm.freeExtents - 3) * extent);
        assert.deepEqual(
          pool.list().map(({ id, sizeBytes, tags }) => [id, sizeBytes, tags]),
          [...lvm.volumes].map(([id, { extents, tags }]) => [id, BigInt(extents) * extent, tags]),
        );
      }
    }),
    { numRuns: 300 },
  );
});
