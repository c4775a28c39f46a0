import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandFailed } from '../../base/exec.ts';
import { createdTag, rawTag, sourceTag, unusedTag } from '../names-and-tags.ts';
import { extent, openThick, signal, volume } from './testing/simulated-pools.ts';

test('creation and removal take one command each, and memory follows', async () => {
  const { pool, lvm } = await openThick();
  const created = await pool.create({ id: 'a', sizeBytes: extent + 1n, tags: ['claim=x'] }, signal);
  assert.deepEqual(created, {
    id: 'a',
    sizeBytes: 2n * extent,
    devicePath: '/dev/vg/a',
    tags: ['claim=x', createdTag],
    readOnly: false,
    attr: '-wi-a-----',
  });
  assert.deepEqual(pool.list(), [created]);
  assert.deepEqual(pool.capacity(), { sizeBytes: 100n * extent, freeBytes: 98n * extent });

  await pool.remove('a', signal);
  assert.deepEqual(pool.list(), []);
  assert.equal(pool.capacity().freeBytes, 100n * extent);
  assert.deepEqual(lvm.commands, ['lvcreate', 'lvremove']);
});

test('a repeated creation returns the volume and runs no command', async () => {
  const { pool, lvm } = await openThick();
  const created = await pool.create(volume('a', 5n), signal);
  assert.deepEqual(await pool.create(volume('a', 3n), signal), created);
  await assert.rejects(pool.create(volume('a', 6n), signal), { name: 'VolumeExists', code: 'AlreadyExists' });
  assert.deepEqual(lvm.commands, ['lvcreate']);
});

test('spare space is kept free at creation and at growth', async () => {
  const { pool } = await openThick({ extents: 10, spareBytes: 4n * extent });
  assert.equal(pool.capacity().freeBytes, 6n * extent);
  await assert.rejects(pool.create(volume('a', 7n), signal), { name: 'PoolFull', code: 'ResourceExhausted' });
  await pool.create(volume('a', 5n), signal);
  await assert.rejects(pool.grow('a', 7n * extent, signal), { name: 'PoolFull' });
  assert.equal((await pool.grow('a', 6n * extent, signal)).sizeBytes, 6n * extent);
  assert.equal(pool.capacity().freeBytes, 0n);
});

test('a pool describes where it allocates and what is used, and a problem until LVM answers again', async () => {
  const { pool, lvm } = await openThick({ name: 'ssd', extents: 10, spareBytes: 4n * extent });
  await pool.create(volume('a', 5n), signal);
  const details = {
    type: 'thick',
    isDefault: true,
    volumeGroup: 'vg',
    volumeGroupUuid: 'EKLdvx-simulated',
    spareBytes: 4n * extent,
    usedBytes: 5n * extent,
  };
  assert.deepEqual(pool.details(), details);

  let changes = 0;
  pool.onChange(() => changes++);
  lvm.fails = () => 'before';
  await assert.rejects(pool.refresh(signal));
  assert.match(pool.details().problem ?? '', /lvm fullreport/);
  assert.equal(changes, 1);
  lvm.fails = () => undefined;
  await pool.refresh(signal);
  assert.deepEqual(pool.details(), details);
});

test('a pool whose spare exceeds its free space reports 0 bytes free', async () => {
  const { pool } = await openThick({ extents: 10, spareBytes: 400n * extent });
  assert.equal(pool.capacity().freeBytes, 0n);
});

test('concurrent creations never take more than the free space', async () => {
  const { pool, lvm } = await openThick({ extents: 10, spareBytes: 2n * extent });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => pool.create(volume(`v${i}`, 2n), signal)),
  );
  assert.equal(outcomes.filter((outcome) => outcome.status === 'fulfilled').length, 4);
  assert.equal(lvm.freeExtents, 2);
});

test('the size of a striped volume is a multiple of its stripes', async () => {
  const { pool } = await openThick({ stripes: 3 });
  assert.equal((await pool.create(volume('a', 4n), signal)).sizeBytes, 6n * extent);
});

test('a command that failed after it took effect is detected, and the retry returns the volume', async () => {
  const { pool, lvm } = await openThick();
  lvm.fails = (subcommand) => (subcommand === 'lvcreate' ? 'after' : undefined);
  await assert.rejects(pool.create(volume('a'), signal), CommandFailed);
  assert.equal(pool.capacity().freeBytes, 99n * extent);
  assert.equal((await pool.create(volume('a'), signal)).id, 'a');
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
});

test('a caller that leaves does not stop a running creation', async () => {
  const { pool, lvm } = await openThick();
  const abort = new AbortController();
  const creation = pool.create(volume('a'), abort.signal);
  const waiting = pool.create(volume('b'), abort.signal);
  while (lvm.commands.length === 0) await Promise.resolve();
  abort.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  assert.equal((await creation).id, 'a');
  assert.deepEqual([...lvm.volumes.keys()], ['a']);
});

test('nothing is changed while LVM cannot be read after a failure', async () => {
  const { pool, lvm } = await openThick();
  lvm.fails = () => 'before';
  await assert.rejects(pool.create(volume('a'), signal));
  lvm.commands.length = 0;
  await assert.rejects(pool.create(volume('a'), signal));
  assert.deepEqual(lvm.commands, ['fullreport']);
  lvm.fails = () => undefined;
  await pool.create(volume('a'), signal);
  assert.deepEqual(lvm.commands, ['fullreport', 'fullreport', 'lvcreate']);
});

test('space that somebody else took is reported as a full pool', async () => {
  const { pool, lvm } = await openThick({ extents: 10 });
  lvm.addForeign('foreign', 8);
  await assert.rejects(pool.create(volume('a', 5n), signal), { name: 'PoolFull' });
  assert.equal(pool.capacity().freeBytes, 2n * extent);
});

test('a change by somebody else is read before the next change, and only then', async () => {
  const { pool, lvm } = await openThick();
  lvm.addForeign('late', 1);
  await pool.remove('late', signal);
  assert.equal(lvm.volumes.size, 0);
  await pool.remove('late', signal);
  assert.deepEqual(lvm.commands, ['fullreport', 'lvremove']);
});

test('a change by somebody else between a command and the comparison with the disks is detected', async () => {
  const { pool, lvm } = await openThick();
  lvm.fails = (subcommand) => {
    if (subcommand === 'lvcreate') lvm.addForeign('foreign', 3);
    return undefined;
  };
  await pool.create(volume('a'), signal);
  await pool.grow('a', 1n, signal); // changes nothing, but waits for its turn
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
  assert.equal(pool.capacity().freeBytes, 96n * extent);
});

test('removals that wait share one command, and a caller that leaves is left out', async () => {
  const { pool, lvm } = await openThick();
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

test('an option class replaces the options of the device class', async () => {
  const { pool, lvm } = await openThick({ stripes: 3 });
  const created = await pool.create({ ...volume('a', 4n), optionClass: 'mirrored' }, signal);
  assert.equal(created.sizeBytes, 4n * extent);
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
  await assert.rejects(pool.create({ ...volume('b'), optionClass: 'none' }, signal), { code: 'Internal' });
});

test('a volume grows by the stripes that it was created with, and memory follows', async () => {
  const { pool, lvm } = await openThick();
  await pool.create({ ...volume('a', 2n), optionClass: 'wide' }, signal);
  assert.equal((await pool.grow('a', 3n * extent, signal)).sizeBytes, 4n * extent);
  assert.equal(lvm.volumes.get('a')?.extents, 4);
  assert.equal(pool.capacity().freeBytes, 96n * extent);
});

test('tags are added once', async () => {
  const { pool, lvm } = await openThick();
  await pool.create({ ...volume('a'), tags: ['one'] }, signal);
  assert.deepEqual((await pool.addTags('a', ['one', 'two'], signal)).tags, ['one', createdTag, 'two']);
  await pool.addTags('a', ['two'], signal);
  assert.deepEqual(lvm.commands, ['lvcreate', 'lvchange']);
  assert.deepEqual(lvm.volumes.get('a')?.tags, ['one', createdTag, 'two']);
  await assert.rejects(pool.addTags('b', ['one'], signal), { name: 'VolumeNotFound' });
});

test('a tag that names the owner replaces the earlier one, in the same command', async () => {
  const { pool, lvm } = await openThick();
  const earlier = ['moorage.dev/claim=old/db', 'moorage.dev/volume=pvc-old'];
  await pool.create({ ...volume('a'), tags: earlier }, signal);
  const { tags } = await pool.addTags('a', ['moorage.dev/claim=new/db'], signal);
  assert.deepEqual(tags, ['moorage.dev/volume=pvc-old', createdTag, unusedTag, 'moorage.dev/claim=new/db']);
  assert.deepEqual(lvm.commands, ['lvcreate', 'lvchange']);
  assert.deepEqual(lvm.volumes.get('a')?.tags, tags);
});

test('a volume is tagged unused until its first use, and only for callers that record use', async () => {
  const { pool, lvm } = await openThick();
  const owner = 'moorage.dev/volume=pvc-1';
  const created = await pool.create({ ...volume('a'), tags: [owner] }, signal);
  assert.deepEqual(created.tags, [owner, createdTag, unusedTag]);
  assert.deepEqual((await pool.addTags('a', ['other'], signal)).tags, [owner, createdTag, unusedTag, 'other']);
  lvm.commands.length = 0;
  assert.deepEqual((await pool.addTags('a', [rawTag], signal)).tags, [owner, createdTag, 'other', rawTag]);
  assert.deepEqual(lvm.commands, ['lvchange']);
  assert.ok(!(await pool.create(volume('b'), signal)).tags.includes(unusedTag));
});

test('names and tags that LVM rejects never reach it', async () => {
  const { pool, lvm } = await openThick();
  await assert.rejects(pool.create(volume('../etc'), signal), { name: 'InvalidInput' });
  await assert.rejects(pool.create({ ...volume('a'), tags: ['a b'] }, signal), { name: 'InvalidInput' });
  assert.deepEqual(lvm.commands, []);
});

test('a volume that somebody else created is not handed out, unless it has all requested tags', async () => {
  const { pool, lvm } = await openThick({ snapshots: 'copy-on-write' });
  lvm.addForeign('data', 5);
  await pool.create(volume('source', 5n), signal);
  lvm.addForeign('copy', 5);
  Object.assign(lvm.volumes.get('copy') ?? {}, { origin: 'source' });
  const refusal = { name: 'NotCreatedHere', code: 'AlreadyExists' };
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

test('a removal reports whether the volume existed, listed or not', async () => {
  const { pool, lvm } = await openThick({ snapshots: 'copy-on-write' });
  lvm.addForeign('half', 2);
  Object.assign(lvm.volumes.get('half') ?? {}, { tags: [createdTag, sourceTag('a')] });
  assert.equal(pool.get('half'), undefined);
  assert.equal(await pool.remove('half', signal), 'removed');
  assert.equal(await pool.remove('half', signal), 'absent');
  assert.equal(lvm.volumes.size, 0);
});

test('a volume of another class in the group is not found, and is not removed', async () => {
  for (const erase of [{ kind: 'none' }, { kind: 'zero' }] as const) {
    const { pool, lvm } = await openThick({ erase });
    lvm.volumes.set('thin', { extents: 1, tags: [createdTag], pool: 'pool' });
    lvm.sequenceNumber++;
    assert.equal(await pool.remove('thin', signal), 'absent');
    assert.ok(lvm.volumes.has('thin'));
  }
});

test('a class with its own lvcreate options reads from LVM what a volume took', async () => {
  const { pool, lvm } = await openThick({ lvcreateOptions: ['--type', 'raid1'] });
  await pool.create(volume('a'), signal);
  assert.deepEqual(lvm.commands, ['lvcreate', 'fullreport']);
});

test('listeners are notified of each change until they unsubscribe', async () => {
  const { pool } = await openThick();
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
