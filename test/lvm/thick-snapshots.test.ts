import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exists } from '../../src/base/exists.ts';
import { createdTag, sourceTag } from '../../src/engine/names-and-tags.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { mebibyte, signal } from './lvm-pools.ts';
import { actualState, onNewGroup, openPool } from './thick-pools.ts';

test('copy-on-write snapshots keep their data, never overflow, and are not removed with their origin', async (t) => {
  const opened = await onNewGroup(t, { snapshots: 'copy-on-write' });
  const { pool } = opened;
  const { devicePath } = await pool.create({ id: 'source', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=16', 'conv=fsync');
  const before = await command('sha256sum', devicePath);
  const snapshot = await pool.snapshot('source', { id: 'frozen', tags: [], access: 'ro' }, signal);
  assert.equal(snapshot.sizeBytes, 16n * mebibyte);
  assert.ok(snapshot.readOnly);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=16', 'conv=fsync');
  assert.equal((await command('sha256sum', snapshot.devicePath)).split(' ')[0], before.split(' ')[0]);
  assert.deepEqual(await pool.snapshot('source', { id: 'frozen', tags: [], access: 'ro' }, signal), pool.get('frozen'));

  await assert.rejects(pool.remove('source', signal), { name: 'VolumeHasSnapshots', code: 'FailedPrecondition' });
  await assert.rejects(pool.grow('source', 32n * mebibyte, signal), { name: 'VolumeHasSnapshots' });
  await assert.rejects(
    pool.snapshot('source', { id: 'large', tags: [], access: 'rw', sizeBytes: 32n * mebibyte }, signal),
    { code: 'Unimplemented' },
  );
  await actualState(opened);
  await pool.remove('frozen', signal);
  await pool.remove('source', signal);
  await actualState(opened);
});

test('a copy-on-write snapshot is restored to an independent volume, which outlives it and can be larger', async (t) => {
  const opened = await onNewGroup(t, { snapshots: 'copy-on-write' });
  const { pool } = opened;
  const { devicePath } = await pool.create({ id: 'source', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=16', 'conv=fsync');
  const [before] = (await command('sha256sum', devicePath)).split(' ');
  await pool.snapshot('source', { id: 'frozen', tags: [], access: 'ro' }, signal);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=16', 'conv=fsync');

  const wanted = { id: 'restored', tags: ['claim=restored'], access: 'rw', sizeBytes: 24n * mebibyte } as const;
  const [restored, joined] = await Promise.all([
    pool.snapshot('frozen', wanted, signal),
    pool.snapshot('frozen', wanted, signal),
  ]);
  assert.deepEqual(joined, restored);
  assert.equal(restored.sizeBytes, 24n * mebibyte);
  assert.ok(!restored.readOnly && restored.origin === undefined && restored.tags.includes('claim=restored'));
  await actualState(opened);
  await pool.remove('frozen', signal);
  await pool.remove('source', signal);
  await pool.grow('restored', 32n * mebibyte, signal);
  assert.equal((await command('sh', '-c', `head -c 16M ${restored.devicePath} | sha256sum`)).split(' ')[0], before);
  await actualState(opened);
});

test('a snapshot created by others is not removed with its origin, even if a slow disk hides it', async (t) => {
  const disk = await faults.delay(t, disks()[0] ?? '', 3_000);
  const vg = await volumeGroup(t, { disks: [disk.path] });
  const { pool, engine } = await openPool(t, vg);
  await pool.create({ id: 'source', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await engine.groups.stop(); // outside changes are not noticed, as if the notification came too late
  await command('lvcreate', '-y', '-s', '-n', 'theirs', '-L', '4m', `${vg}/source`);
  await disk.breakNow();
  await assert.rejects(pool.remove('source', signal), { name: 'VolumeHasSnapshots', message: /theirs/ });
  await assert.rejects(pool.grow('source', 16n * mebibyte, signal), { name: 'VolumeHasSnapshots' });
  await disk.heal();
  assert.match(await command('lvs', '--noheadings', '-o', 'lv_name', vg), /source\s+theirs/);
});

test('a snapshot that others are just creating is not removed with its origin', async (t) => {
  const disk = await faults.slowWrites(t, disks()[0] ?? '', 500);
  const vg = await volumeGroup(t, { disks: [disk.path] });
  const { pool } = await openPool(t, vg);
  await pool.create({ id: 'source', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await disk.breakNow();
  const snapshot = command('lvcreate', '-y', '-s', '-n', 'theirs', '-L', '4m', `${vg}/source`);
  await eventually('LVM has locked the group', () => exists(`/run/lock/lvm/V_${vg}`));
  await assert.rejects(pool.remove('source', signal), { name: 'VolumeHasSnapshots', message: /theirs/ });
  await snapshot;
  await disk.heal();
  assert.match(await command('lvs', '--noheadings', '-o', 'lv_name', vg), /source\s+theirs/);
});

test('a volume that is the external origin of thin volumes is not removed', async (t) => {
  const { pool, vg } = await onNewGroup(t);
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '64m', '-n', 'pool', vg);
  await pool.create({ id: 'base', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await command('lvchange', '-an', `${vg}/base`);
  await command('lvchange', '-pr', `${vg}/base`);
  await command('lvcreate', '-y', '-s', '-kn', '--thinpool', `${vg}/pool`, '-n', 'child', `${vg}/base`);
  await assert.rejects(pool.remove('base', signal), { name: 'VolumeHasSnapshots', message: /child/ });
  await command('lvremove', '-y', `${vg}/child`);
  await pool.remove('base', signal);
});

test('the store of an unfinished snapshot is not listed as a volume, and is replaced on retry', async (t) => {
  const opened = await onNewGroup(t, { snapshots: 'copy-on-write' });
  const { pool, vg } = opened;
  await pool.create({ id: 'source', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  // As power loss leaves it: LVM first creates the store under the final name.
  await command(
    'lvcreate',
    '-y',
    '-n',
    'frozen',
    '-L',
    '12m',
    '--addtag',
    sourceTag('source'),
    '--addtag',
    createdTag,
    vg,
  );
  await pool.refresh(signal);
  assert.equal(pool.get('frozen'), undefined);
  assert.deepEqual(
    pool.list().map(({ id }) => id),
    ['source'],
  );
  const created = await pool.snapshot('source', { id: 'frozen', tags: [], access: 'rw' }, signal);
  assert.equal(created.origin, 'source');
  assert.equal(created.sizeBytes, 8n * mebibyte);
  await assert.rejects(pool.snapshot('frozen', { id: 'twice', tags: [], access: 'ro' }, signal), {
    code: 'Unimplemented',
  });
  await actualState(opened);
  await pool.remove('frozen', signal);
});

test('a class without copy-on-write rejects snapshots', async (t) => {
  const { pool } = await onNewGroup(t);
  await pool.create({ id: 'a', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await assert.rejects(pool.snapshot('a', { id: 'b', tags: [], access: 'ro' }, signal), { code: 'Unimplemented' });
});
