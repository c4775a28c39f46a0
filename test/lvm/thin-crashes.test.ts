import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandFailed } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { deviceMapperName, removedThinOrphan } from '../../src/engine/lvm/thin-device.ts';
import { filesystemTag, unfinishedTag } from '../../src/engine/names-and-tags.ts';
import { command } from '../../worlds/lvm/inside.ts';
import { mebibyte, signal } from './lvm-pools.ts';
import { actualState, becomeGhost, byId, newThinPool, read, sizeOf, write } from './thin-pools.ts';

test('a growth interrupted after the metadata change is completed', async (t) => {
  const { pool, restart, vg } = await newThinPool(t);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await command('lvextend', '-y', '--driverloaded', 'n', '-L', '24m', `${vg}/data`);
  assert.equal(await sizeOf(devicePath), 8n * mebibyte);
  assert.equal((await pool.grow('data', 24n * mebibyte, signal)).sizeBytes, 24n * mebibyte);
  assert.equal(await sizeOf(devicePath), 24n * mebibyte);

  await command('lvextend', '-y', '--driverloaded', 'n', '-L', '32m', `${vg}/data`);
  await restart();
  assert.equal(await sizeOf(devicePath), 32n * mebibyte);
});

test('a ghost is replaced when its volume is requested again, and can be removed', async (t) => {
  const { pool, restart, vg } = await newThinPool(t);
  for (const id of ['ghost', 'spook', 'real']) await pool.create({ id, sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await write(`/dev/${vg}/real`, 'kept');
  for (const id of ['ghost', 'spook']) await becomeGhost(vg, id);
  await command('lvchange', '-an', `${vg}/real`);

  const fresh = await restart();
  assert.equal(await read(`/dev/${vg}/real`, 4), 'kept'); // it had no device, but is not a ghost
  assert.deepEqual(
    fresh.list().map(({ id }) => id),
    ['real'],
  );
  assert.equal(fresh.get('ghost'), undefined);
  const created = await fresh.create({ id: 'ghost', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await write(created.devicePath, 'new');
  await fresh.remove('spook', signal);
  assert.deepEqual(
    byId(fresh).map(({ id }) => id),
    ['ghost', 'real'],
  );
  await actualState(fresh, restart);
});

test('a used volume is never taken for a ghost and replaced with an empty one', async (t) => {
  const { pool, restart, vg } = await newThinPool(t);
  const wanted = { id: 'lost', sizeBytes: 8n * mebibyte, tags: [] };
  await pool.create(wanted, signal);
  await pool.addTags('lost', [filesystemTag('ext4')], signal);
  const uuid = await command('lvs', '--noheadings', '-o', 'lv_uuid', `${vg}/lost`);
  await becomeGhost(vg, 'lost');

  const fresh = await restart();
  await assert.rejects(fresh.create(wanted, signal), { name: 'VolumeInactive', code: 'FailedPrecondition' });
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_uuid', `${vg}/lost`), uuid);
  await fresh.remove('lost', signal);
});

test('a copy that power loss left as a ghost is created again, unless it was already in use', async (t) => {
  const { pool, restart, vg } = await newThinPool(t);
  const source = await pool.create({ id: 'source', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await pool.addTags('source', [filesystemTag('ext4')], signal);
  await write(source.devicePath, 'kept');
  for (const id of ['ghost', 'spook', 'used']) await pool.snapshot('source', { id, tags: [], access: 'rw' }, signal);
  for (const id of ['ghost', 'spook']) await command('lvchange', '--addtag', unfinishedTag, `${vg}/${id}`);
  for (const id of ['ghost', 'used']) await becomeGhost(vg, id);

  const fresh = await restart();
  assert.deepEqual(
    byId(fresh).map(({ id }) => id),
    ['source', 'used'],
  );
  for (const id of ['ghost', 'spook']) {
    const copy = await fresh.snapshot('source', { id, tags: [], access: 'rw' }, signal);
    assert.equal(await read(copy.devicePath, 4), 'kept');
    assert.ok(!copy.tags.includes(unfinishedTag));
  }
  await assert.rejects(fresh.snapshot('source', { id: 'used', tags: [], access: 'rw' }, signal), {
    name: 'VolumeInactive',
  });
  for (const id of ['ghost', 'spook', 'used']) await fresh.remove(id, signal);
});

test('a device that an interrupted creation left in the pool does not block the next one', async (t) => {
  const { pool, vg, restart } = await newThinPool(t);
  const source = await pool.create({ id: 'source', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await write(source.devicePath, 'kept');
  const thinId = Number(await command('lvs', '--noheadings', '-o', 'thin_id', `${vg}/source`));
  const leaveBehind = (id: number) =>
    command('dmsetup', 'message', `${deviceMapperName(vg, 'pool')}-tpool`, '0', `create_snap ${id} ${thinId}`);

  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '32m', '-n', 'second', vg);
  for (const name of ['one', 'two'])
    await command('lvcreate', '-y', '-V', '4m', '--thinpool', 'second', '-n', name, vg);
  await leaveBehind(thinId + 1); // a volume of the second pool has the same number
  const snapshot = await pool.snapshot('source', { id: 'copy', tags: [], access: 'ro' }, signal);
  assert.equal(await read(snapshot.devicePath, 4), 'kept');
  await leaveBehind(thinId + 2);
  await pool.create({ id: 'other', sizeBytes: 4n * mebibyte, tags: [] }, signal);

  assert.equal(await read(source.devicePath, 4), 'kept');
  await actualState(pool, restart);
});

test('the device of an existing volume is never taken for a leftover, whatever LVM reports', async (t) => {
  const { pool, vg, engine } = await newThinPool(t);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await write(devicePath, 'kept');
  await command('lvchange', '-an', `${vg}/data`); // an active one could not be removed
  const thinId = await command('lvs', '--noheadings', '-o', 'thin_id', `${vg}/data`);
  const stderr = `Thin pool ${vg}-pool-tpool already contain thin device with device_id ${thinId}.`;
  const stumbled = new CommandFailed(['lvcreate'], { exitCode: 5, signal: null, stdout: '', stderr });

  assert.equal(await removedThinOrphan(await engine.groups.open(vg, signal), 'pool', stumbled, silentLog), false);
  await command('lvchange', '-ay', `${vg}/data`);
  assert.equal(await read(devicePath, 4), 'kept');
});
