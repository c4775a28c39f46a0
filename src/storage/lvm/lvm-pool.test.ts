import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import * as fc from 'fast-check';
import { CommandFailed } from '../../base/exec.ts';
import { silentLog } from '../../base/log.ts';
import { ManualClock } from '../../base/manual-clock.ts';
import type { ThickClass, ThinClass } from '../device-classes.ts';
import { Eraser } from '../eraser.ts';
import { Erasures } from '../erasures.ts';
import { createdTag, filesystemTag, sourceTag, unfinishedTag } from '../tags.ts';
import { Lvm } from './lvm.ts';
import { newLvmFigures } from './lvm-figures.ts';
import { SimulatedLvm } from './simulated-lvm.ts';
import { ThickPool } from './thick-pool.ts';
import { ThinPool } from './thin-pool.ts';
import type { CopyDevice } from './volume-copies.ts';
import { VolumeGroup } from './volume-group.ts';

const signal = new AbortController().signal;
const extent = 4194304n;

function newGroup(simulated: SimulatedLvm, clock: ManualClock) {
  const lvm = new Lvm({
    command: ['lvm'],
    run: simulated.run,
    env: {},
    clock,
    log: silentLog,
    figures: newLvmFigures(),
  });
  const sequenceNumberOf = async () => simulated.sequenceNumber;
  const isWatched = () => false;
  const group = new VolumeGroup({ name: 'vg', lvm, sequenceNumberOf, isWatched, clock, log: silentLog });
  const erasures = new Erasures({ eraser: new Eraser(simulated.run), clock, log: silentLog });
  return { group, erasures, log: silentLog };
}

const anyClass = {
  isDefault: true,
  spareBytes: 0n,
  erase: { kind: 'none' as const },
  volumeGroup: 'vg',
  stripes: 0,
  stripeSize: undefined,
  lvcreateOptions: [],
};

async function open({
  extents = 100,
  copyDevice,
  ...settings
}: Partial<ThickClass> & { extents?: number; copyDevice?: CopyDevice } = {}) {
  const simulated = new SimulatedLvm(extents);
  const collaborators = newGroup(simulated, new ManualClock());
  const deviceClass: ThickClass = { ...anyClass, type: 'thick', name: 'ssd', snapshots: 'none', ...settings };
  const optionClasses = [
    { name: 'mirrored', options: ['--type', 'raid1'] },
    { name: 'wide', options: ['--stripes', '2'] },
  ];
  const copies = copyDevice && { copyDevice };
  const pool = await ThickPool.open({ ...collaborators, deviceClass, optionClasses, ...copies }, signal);
  simulated.commands.length = 0;
  return { pool, lvm: simulated };
}

const settings = { name: 'pool', overprovisionRatio: 2.5, maxDataPercent: 90, maxMetadataPercent: 85 };

async function openThin({ extents = 100 }: { extents?: number } = {}) {
  const simulated = new SimulatedLvm(1000, { name: 'pool', extents });
  const clock = new ManualClock();
  const collaborators = newGroup(simulated, clock);
  const deviceClass: ThinClass = { ...anyClass, type: 'thin', name: 'thin', thinPool: settings };
  const deviceSize = async () => undefined;
  const pool = await ThinPool.open({ ...collaborators, deviceClass, optionClasses: [], clock, deviceSize }, signal);
  simulated.commands.length = 0;
  return { pool, lvm: simulated, clock };
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
  assert.deepEqual(await pool.create(volume('a', 3n), signal), made);
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
  lvm.addForeign('foreign', 8);
  await assert.rejects(pool.create(volume('a', 5n), signal), { name: 'PoolFull' });
  assert.equal(pool.capacity().freeBytes, 2n * extent);
});

test('what somebody else changed is read before anything is decided, and only then', async () => {
  const { pool, lvm } = await open();
  lvm.addForeign('late', 1);
  await pool.remove('late', signal);
  assert.equal(lvm.volumes.size, 0);
  await pool.remove('late', signal);
  assert.deepEqual(lvm.commands, ['fullreport', 'lvremove']);
});

test('somebody who was there between a command and our look at the disk is found out', async () => {
  const { pool, lvm } = await open();
  lvm.fails = (subcommand) => {
    if (subcommand === 'lvcreate') lvm.addForeign('foreign', 3);
    return undefined;
  };
  await pool.create(volume('a'), signal);
  await pool.grow('a', 1n, signal); // has nothing to do, but waits for its turn
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
  assert.equal(pool.capacity().freeBytes, 96n * extent);
});

test('removals that wait for each other are one command, and a caller that leaves is left out', async () => {
  const { pool, lvm } = await open();
  for (const id of ['a', 'b', 'c', 'd']) await pool.create(volume(id), signal);
  lvm.commands.length = 0;
  const abort = new AbortController();
  const removals = ['a', 'b', 'gone'].map((id) => pool.remove(id, signal));
  const left = pool.remove('c', abort.signal);
  abort.abort();
  await assert.rejects(left, { name: 'AbortError' });
  await Promise.all(removals);
  assert.deepEqual(lvm.commands, ['lvremove']);
  assert.deepEqual([...lvm.volumes.keys()], ['c', 'd']);
});

test('a class of options takes the place of those of the device class', async () => {
  const { pool, lvm } = await open({ stripes: 3 });
  const made = await pool.create({ ...volume('a', 4n), optionClass: 'mirrored' }, signal);
  assert.equal(made.sizeBytes, 4n * extent);
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
  await assert.rejects(pool.create({ ...volume('b'), optionClass: 'none' }, signal), { code: 'Internal' });
});

test('a volume grows by the stripes that it was made with, and memory with it', async () => {
  const { pool, lvm } = await open();
  await pool.create({ ...volume('a', 2n), optionClass: 'wide' }, signal);
  assert.equal((await pool.grow('a', 3n * extent, signal)).sizeBytes, 4n * extent);
  assert.equal(lvm.volumes.get('a')?.extents, 4);
  assert.equal(pool.capacity().freeBytes, 96n * extent);
});

test('a thin pool promises what its ratio allows, and no more', async () => {
  const { pool, lvm } = await openThin();
  assert.equal(pool.capacity().freeBytes, 250n * extent);
  await pool.create(volume('a', 200n), signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro', sizeBytes: 200n * extent }, signal).then(
    () => assert.fail('it promised too much'),
    (error: Error) => assert.equal(error.name, 'PoolFull'),
  );
  await pool.grow('a', 249n * extent, signal);
  assert.equal(pool.capacity().freeBytes, extent);
  assert.deepEqual(lvm.commands, ['lvs', 'lvcreate', 'lvextend']);
});

test('a thin pool in danger promises nothing, as it is measured and not as it was', async () => {
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
  }
  lvm.usage = { dataPercent: 90, metadataPercent: 85 };
  clock.advance(6000);
  await pool.create(volume('b'), signal);
});

test('a snapshot repeated is completed, and one of something else is refused', async () => {
  const { pool, lvm } = await openThin();
  await pool.create(volume('a', 2n), signal);
  const wanted = { id: 's', tags: ['t'], access: 'ro' as const, sizeBytes: 4n * extent };
  lvm.fails = (subcommand) => (subcommand === 'lvextend' ? 'before' : undefined);
  await assert.rejects(pool.snapshot('a', wanted, signal), CommandFailed);
  lvm.fails = () => undefined;
  const made = await pool.snapshot('a', wanted, signal);
  assert.equal(made.sizeBytes, 4n * extent);
  assert.equal(made.origin, 'a');
  assert.ok(made.readOnly);
  assert.deepEqual(await pool.snapshot('a', wanted, signal), made);
  await pool.create(volume('b'), signal);
  await assert.rejects(pool.snapshot('b', wanted, signal), { name: 'NameTaken', code: 'AlreadyExists' });
  await assert.rejects(pool.create(volume('s'), signal), { name: 'NameTaken' });
  await pool.remove('a', signal);
  assert.equal((await pool.snapshot('a', wanted, signal)).origin, undefined);
});

test('a volume that thin volumes read from is not removed from under them', async () => {
  const { pool, lvm } = await open();
  await pool.create(volume('base'), signal);
  lvm.addForeign('child', 1);
  Object.assign(lvm.volumes.get('child') ?? {}, { pool: 'pool', origin: 'base' });
  await assert.rejects(pool.remove('base', signal), { name: 'VolumeHasSnapshots', message: /child/ });
  assert.deepEqual([...lvm.volumes.keys()], ['base', 'child']);
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

test('no caller can make a volume look unfinished, or have it erased', async () => {
  const { pool, lvm } = await open({ snapshots: 'copy-on-write' });
  await pool.create(volume('a'), signal);
  lvm.commands.length = 0;
  for (const tags of [['moorage.dev/source=x'], ['moorage.dev/erasing']]) {
    await assert.rejects(pool.addTags('a', tags, signal), { name: 'InvalidInput' });
    await assert.rejects(pool.create({ ...volume('b'), tags }, signal), { name: 'InvalidInput' });
    await assert.rejects(pool.snapshot('a', { id: 's', tags, access: 'rw' }, signal), { name: 'InvalidInput' });
  }
  assert.deepEqual(lvm.commands, []);
});

test('what looks unfinished is cleared away only for the same snapshot, and only if it was never used', async () => {
  const { pool, lvm } = await open({ snapshots: 'copy-on-write' });
  await pool.create(volume('a'), signal);
  await pool.addTags('a', [filesystemTag('ext4')], signal);
  for (const id of ['half', 'used']) lvm.addForeign(id, 2);
  const tags = [createdTag, sourceTag('a'), filesystemTag('ext4')];
  Object.assign(lvm.volumes.get('half') ?? {}, { tags });
  Object.assign(lvm.volumes.get('used') ?? {}, { tags: [createdTag, sourceTag('a'), filesystemTag('xfs')] });
  for (const id of ['half', 'used']) {
    await assert.rejects(pool.create(volume(id), signal), { name: 'NameTaken' });
    await assert.rejects(pool.snapshot('b', { id, tags: [], access: 'rw' }, signal), { name: 'NameTaken' });
  }
  await assert.rejects(pool.snapshot('a', { id: 'used', tags: [], access: 'rw' }, signal), { name: 'NameTaken' });
  assert.ok(!lvm.commands.includes('lvremove'));
  assert.equal((await pool.snapshot('a', { id: 'half', tags: [], access: 'rw' }, signal)).origin, 'a');
});

test('a snapshot is read into a volume of its own, whose callers may leave and come back', async () => {
  const begun = Promise.withResolvers<void>();
  const copying = Promise.withResolvers<void>();
  const read: string[] = [];
  const { pool } = await open({
    snapshots: 'copy-on-write',
    copyDevice: async (from, to) => {
      read.push(`${from} ${to}`);
      begun.resolve();
      await copying.promise;
    },
  });
  await pool.create({ ...volume('a'), tags: ['claim=a'] }, signal);
  await pool.addTags('a', [filesystemTag('ext4')], signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const restored = { id: 'r', tags: ['claim=r'], access: 'rw', sizeBytes: 3n * extent } as const;
  const impatient = new AbortController();
  const first = pool.snapshot('s', restored, impatient.signal);
  const other = pool.snapshot('a', { ...restored, sizeBytes: extent }, signal);
  await begun.promise;
  assert.equal(pool.get('r'), undefined, 'nobody can use it yet');
  impatient.abort();
  await assert.rejects(first, { name: 'AbortError' });

  const second = pool.snapshot('s', restored, signal);
  copying.resolve();
  const { origin, sizeBytes, tags } = await second;
  assert.deepEqual({ origin, sizeBytes }, { origin: undefined, sizeBytes: 3n * extent });
  assert.ok(['claim=r', filesystemTag('ext4'), createdTag].every((tag) => tags.includes(tag)));
  assert.deepEqual(read, ['/dev/vg/s /dev/vg/r']);
  assert.deepEqual(await pool.snapshot('s', restored, signal), await second);
  await assert.rejects(other, { name: 'NameTaken' });
  await pool.remove('s', signal);
  assert.equal((await pool.grow('r', 4n * extent, signal)).sizeBytes, 4n * extent);
});

test('of many copies only a few are under way at once, and a failed one makes way for the next', async () => {
  let underWay = 0;
  let most = 0;
  const { pool } = await open({
    snapshots: 'copy-on-write',
    copyDevice: async (_, to) => {
      most = Math.max(most, ++underWay);
      await setImmediate();
      underWay -= 1;
      if (to.endsWith('r1')) throw new Error('the disk is broken');
    },
  });
  await pool.create(volume('a'), signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const ids = ['r1', 'r2', 'r3', 'r4', 'r5'];
  await Promise.allSettled(ids.map((id) => pool.snapshot('s', { id, tags: [], access: 'rw' }, signal)));
  assert.deepEqual(
    ids.filter((id) => pool.get(id)),
    ['r2', 'r3', 'r4', 'r5'],
  );
  assert.equal(most, 2);
});

test('a copy that failed is no volume, and is made anew', async () => {
  const outcomes = [Promise.reject(new Error('the disk is broken')), Promise.resolve()];
  const { pool, lvm } = await open({ snapshots: 'copy-on-write', copyDevice: async () => outcomes.shift() });
  await pool.create(volume('a'), signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const restored = { id: 'r', tags: [], access: 'rw' } as const;
  await assert.rejects(pool.snapshot('s', restored, signal), /broken/);
  assert.equal(pool.get('r'), undefined);
  lvm.commands.length = 0;
  assert.equal((await pool.snapshot('s', restored, signal)).id, 'r');
  assert.ok(lvm.commands.includes('lvremove'), 'what was left was taken away first');
});

test('a copy may ask for the size that its source has asked for, which was rounded', async () => {
  const { pool } = await open({ snapshots: 'copy-on-write', copyDevice: async () => undefined });
  const sizeBytes = 2n * extent - 1n;
  await pool.create({ id: 'a', sizeBytes, tags: [] }, signal);
  await pool.snapshot('a', { id: 'clone', tags: [], access: 'rw', sizeBytes }, signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const restored = await pool.snapshot('s', { id: 'r', tags: [], access: 'rw', sizeBytes }, signal);
  assert.equal(restored.sizeBytes, 2n * extent);
  await assert.rejects(pool.snapshot('s', { id: 'q', tags: [], access: 'rw', sizeBytes: extent }, signal), {
    code: 'OutOfRange',
  });
});

test('only what cannot change any more is read into another volume', async () => {
  const { pool } = await open({ snapshots: 'copy-on-write' });
  await pool.create(volume('a'), signal);
  await pool.snapshot('a', { id: 'clone', tags: [], access: 'rw' }, signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const refusal = { code: 'Unimplemented', message: /is a copy-on-write snapshot itself/ };
  await assert.rejects(pool.snapshot('clone', { id: 'r', tags: [], access: 'rw' }, signal), refusal);
  await assert.rejects(pool.snapshot('s', { id: 'r', tags: [], access: 'ro' }, signal), refusal);
});

test('a volume that somebody else has made is not handed out, unless it carries all that is asked for', async () => {
  const { pool, lvm } = await open({ snapshots: 'copy-on-write' });
  lvm.addForeign('data', 5);
  await pool.create(volume('source', 5n), signal);
  lvm.addForeign('copy', 5);
  Object.assign(lvm.volumes.get('copy') ?? {}, { origin: 'source' });
  const refusal = { name: 'NotMadeHere', code: 'AlreadyExists' };
  await assert.rejects(pool.create(volume('data'), signal), refusal);
  await assert.rejects(pool.create({ ...volume('data'), tags: ['claim=mine'] }, signal), refusal);
  await assert.rejects(pool.snapshot('source', { id: 'copy', tags: [], access: 'rw' }, signal), refusal);
  lvm.fails = (subcommand) => {
    if (subcommand === 'lvcreate') lvm.addForeign('late', 5);
    return undefined;
  };
  await assert.rejects(pool.create(volume('late'), signal), refusal);
  Object.assign(lvm.volumes.get('data') ?? {}, { tags: ['claim=mine', 'more'] });
  lvm.sequenceNumber++;
  assert.equal((await pool.create({ ...volume('data'), tags: ['claim=mine'] }, signal)).id, 'data');
});

test('a removal says whether there was anything, listed or not', async () => {
  const { pool, lvm } = await open({ snapshots: 'copy-on-write' });
  lvm.addForeign('half', 2);
  Object.assign(lvm.volumes.get('half') ?? {}, { tags: [createdTag, sourceTag('a')] });
  assert.equal(pool.get('half'), undefined);
  assert.equal(await pool.remove('half', signal), true);
  assert.equal(await pool.remove('half', signal), false);
  assert.equal(lvm.volumes.size, 0);
});

test('what another class of the group has is not there for this one, and stays', async () => {
  for (const erase of [{ kind: 'none' }, { kind: 'zero' }] as const) {
    const { pool, lvm } = await open({ erase });
    lvm.volumes.set('thin', { extents: 1, tags: [createdTag], pool: 'pool' });
    lvm.sequenceNumber++;
    assert.equal(await pool.remove('thin', signal), false);
    assert.ok(lvm.volumes.has('thin'));
  }
});

test('nothing is copied of what is not whole itself', async () => {
  const half = { extents: 1, tags: [createdTag, sourceTag('gone')] };
  const { pool, lvm } = await open({ snapshots: 'copy-on-write' });
  const thin = await openThin();
  lvm.volumes.set('half', half);
  thin.lvm.volumes.set('half', { ...half, tags: [...half.tags, unfinishedTag], pool: 'pool' });
  for (const its of [{ pool, lvm }, thin]) {
    its.lvm.sequenceNumber++;
    await assert.rejects(its.pool.snapshot('half', { id: 's', tags: [], access: 'ro' }, signal), { code: 'NotFound' });
    assert.ok(!its.lvm.volumes.has('s'));
  }
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

const thinAction = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), id, size, failure }),
  fc.record({ kind: fc.constant('grow' as const), id, size, failure }),
  fc.record({ kind: fc.constant('snapshot' as const), id, source: id, size, failure }),
  fc.record({ kind: fc.constant('remove' as const), id, failure }),
  fc.record({ kind: fc.constant('outside' as const), id }),
);

test('the same for a thin pool, with snapshots, and others who make and remove volumes in its group', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(thinAction, { maxLength: 25 }), async (actions) => {
      const { pool, lvm } = await openThin({ extents: 12 });
      for (const step of actions) {
        if (step.kind === 'outside') {
          if (lvm.volumes.delete(step.id)) lvm.sequenceNumber += 2;
          else lvm.addForeign(step.id, 3);
          continue;
        }
        const failure = step.failure;
        lvm.fails = (subcommand) => (['fullreport', 'lvs'].includes(subcommand) ? undefined : failure);
        const wanted = { id: step.id, tags: [], access: 'rw' as const };
        const work =
          step.kind === 'create'
            ? pool.create({ ...wanted, sizeBytes: step.size }, signal)
            : step.kind === 'grow'
              ? pool.grow(step.id, step.size, signal)
              : step.kind === 'snapshot'
                ? pool.snapshot(step.source, { ...wanted, sizeBytes: step.size }, signal)
                : pool.remove(step.id, signal);
        await work.catch(() => undefined);

        const thin = [...lvm.volumes].filter(([, volume]) => volume.pool !== undefined);
        const promised = thin.reduce((sum, [, { extents }]) => sum + BigInt(extents), 0n);
        assert.ok(promised <= 30n, 'more was promised than the ratio allows');
        assert.equal(pool.capacity().freeBytes, (30n - promised) * extent);
        const finished = thin.filter(([, { tags }]) => !tags.includes(unfinishedTag));
        assert.deepEqual(
          pool.list().map(({ id, sizeBytes }) => [id, sizeBytes]),
          finished.map(([id, { extents }]) => [id, BigInt(extents) * extent]),
        );
      }
    }),
    { numRuns: 300 },
  );
});
