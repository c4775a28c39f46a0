import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { CommandFailed } from '../../base/exec.ts';
import { createdTag, filesystemTag, sourceTag, unfinishedTag } from '../names-and-tags.ts';
import { extent, openThick, openThin, signal, volume } from './testing/simulated-pools.ts';

test('a repeated snapshot is completed, and one of another source is refused', async () => {
  const { pool, lvm } = await openThin();
  await pool.create(volume('a', 2n), signal);
  const wanted = { id: 's', tags: ['t'], access: 'ro' as const, sizeBytes: 4n * extent };
  lvm.fails = (subcommand) => (subcommand === 'lvextend' ? 'before' : undefined);
  await assert.rejects(pool.snapshot('a', wanted, signal), CommandFailed);
  lvm.fails = () => undefined;
  const created = await pool.snapshot('a', wanted, signal);
  assert.equal(created.sizeBytes, 4n * extent);
  assert.equal(created.origin, 'a');
  assert.ok(created.readOnly);
  assert.deepEqual(await pool.snapshot('a', wanted, signal), created);
  await pool.create(volume('b'), signal);
  await assert.rejects(pool.snapshot('b', wanted, signal), { name: 'NameTaken', code: 'AlreadyExists' });
  await assert.rejects(pool.create(volume('s'), signal), { name: 'NameTaken' });
  await pool.remove('a', signal);
  assert.equal((await pool.snapshot('a', wanted, signal)).origin, undefined);
});

test('no caller can tag a volume as unfinished or for erasure', async () => {
  const { pool, lvm } = await openThick({ snapshots: 'copy-on-write' });
  await pool.create(volume('a'), signal);
  lvm.commands.length = 0;
  for (const tags of [['moorage.dev/source=x'], ['moorage.dev/erasing']]) {
    await assert.rejects(pool.addTags('a', tags, signal), { name: 'InvalidInput' });
    await assert.rejects(pool.create({ ...volume('b'), tags }, signal), { name: 'InvalidInput' });
    await assert.rejects(pool.snapshot('a', { id: 's', tags, access: 'rw' }, signal), { name: 'InvalidInput' });
  }
  assert.deepEqual(lvm.commands, []);
});

test('an unfinished snapshot is removed only for the same request, and only if it was never used', async () => {
  const { pool, lvm } = await openThick({ snapshots: 'copy-on-write' });
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

test('a snapshot is copied into a volume of its own, and callers may leave and come back', async () => {
  const begun = Promise.withResolvers<void>();
  const copying = Promise.withResolvers<void>();
  const read: string[] = [];
  const { pool, lvm } = await openThick({
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
  await assert.rejects(pool.remove('s', signal), { name: 'VolumeBeingCopied', message: /into r/ });
  assert.ok(!lvm.commands.includes('lvremove'));
  impatient.abort();
  await assert.rejects(first, { name: 'CopyInProgress', code: 'Cancelled' });

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

test('only a few copies run at once, and a failed one makes room for the next', async () => {
  let inProgress = 0;
  let most = 0;
  const { pool } = await openThick({
    snapshots: 'copy-on-write',
    copyDevice: async (_, to) => {
      most = Math.max(most, ++inProgress);
      await setImmediate();
      inProgress -= 1;
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

test('a failed copy is no volume, and is re-created', async () => {
  const outcomes = [Promise.reject(new Error('the disk is broken')), Promise.resolve()];
  const { pool, lvm } = await openThick({ snapshots: 'copy-on-write', copyDevice: async () => outcomes.shift() });
  await pool.create(volume('a'), signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const restored = { id: 'r', tags: [], access: 'rw' } as const;
  await assert.rejects(pool.snapshot('s', restored, signal), /broken/);
  assert.equal(pool.get('r'), undefined);
  lvm.commands.length = 0;
  assert.equal((await pool.snapshot('s', restored, signal)).id, 'r');
  assert.ok(lvm.commands.includes('lvremove'), 'the remains were removed first');
});

test('a copy may request the unrounded size that was requested for its source', async () => {
  const { pool } = await openThick({ snapshots: 'copy-on-write', copyDevice: async () => undefined });
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

test('only a read-only snapshot is copied, and only into a writable volume', async () => {
  const { pool } = await openThick({ snapshots: 'copy-on-write' });
  await pool.create(volume('a'), signal);
  await pool.snapshot('a', { id: 'clone', tags: [], access: 'rw' }, signal);
  await pool.snapshot('a', { id: 's', tags: [], access: 'ro' }, signal);
  const refusal = { code: 'Unimplemented', message: /is a copy-on-write snapshot itself/ };
  await assert.rejects(pool.snapshot('clone', { id: 'r', tags: [], access: 'rw' }, signal), refusal);
  await assert.rejects(pool.snapshot('s', { id: 'r', tags: [], access: 'ro' }, signal), refusal);
});

test('an unfinished volume is not copied', async () => {
  const half = { extents: 1, tags: [createdTag, sourceTag('gone')] };
  const { pool, lvm } = await openThick({ snapshots: 'copy-on-write' });
  const thin = await openThin();
  lvm.volumes.set('half', half);
  thin.lvm.volumes.set('half', { ...half, tags: [...half.tags, unfinishedTag], pool: 'pool' });
  for (const each of [{ pool, lvm }, thin]) {
    each.lvm.sequenceNumber++;
    await assert.rejects(each.pool.snapshot('half', { id: 's', tags: [], access: 'ro' }, signal), { code: 'NotFound' });
    assert.ok(!each.lvm.volumes.has('s'));
  }
});
