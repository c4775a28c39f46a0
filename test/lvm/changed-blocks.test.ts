import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { checkpointTag } from '../../src/engine/names-and-tags.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { command, disks } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { openFilePool } from '../native/scratch.ts';
import { FollowedCopy, RandomWriter } from './followed-copy.ts';
import { mebibyte, signal } from './lvm-pools.ts';
import { onNewGroup } from './thick-pools.ts';
import { newThinPool, write } from './thin-pools.ts';

const sizeBytes = 16n * mebibyte;
const size = Number(sizeBytes);

async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'copy-'));
  undoAfter(t, () => rm(path, { recursive: true }));
  return path;
}

/** A copy follows a volume that is written all the time, until that is closed and read-only. */
async function mustFollow(
  t: TestContext,
  pool: ServedPool,
  prepare: () => Promise<unknown> = async () => undefined,
): Promise<readonly number[]> {
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await prepare();
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=10', 'conv=fsync');
  const copy = await FollowedCopy.create(join(await directory(t), 'copy'), sizeBytes);
  const tracking = pool.trackChanges('data');
  const writer = new RandomWriter(devicePath, sizeBytes / 2n); // the other half is not to be copied again
  const copied: number[] = [];
  for (let round = 1; round <= 3; round++) {
    copied.push(await copy.follow(tracking, 'next'));
    const before = writer.written;
    while (writer.written < before + 10) await delay(1);
  }
  await assert.rejects(pool.setAccess('data', 'ro', signal), { name: 'VolumeOpen' });
  await writer.stop();
  const closed = await pool.setAccess('data', 'ro', signal);
  assert.ok(closed.readOnly);
  copied.push(await copy.follow(tracking, 'last'));
  assert.ok(await copy.isSameAs(closed.devicePath));
  await tracking.end(signal);
  const writable = await pool.setAccess('data', 'rw', signal);
  await write(writable.devicePath, 'writable again');
  return copied;
}

/** The checkpoints show nowhere, and protect the volume. */
async function mustHideCheckpoints(pool: ServedPool, id: string): Promise<void> {
  assert.deepEqual(
    pool.list().map((volume) => volume.id),
    [id],
  );
  const moving = { name: 'VolumeBeingMoved', code: 'FailedPrecondition' };
  await assert.rejects(pool.grow(id, 2n * sizeBytes, signal), moving);
  await assert.rejects(pool.remove(id, signal), moving);
}

test('a copy of a thick volume follows by the exception stores of copy-on-write snapshots', async (t) => {
  const { pool, vg } = await onNewGroup(t);
  const free = pool.capacity().freeBytes;
  const [first = 0, ...later] = await mustFollow(t, pool);
  assert.equal(first, size);
  for (const bytes of later) assert.ok(bytes > 0 && bytes <= size / 2, later.join());
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name', vg), 'data');
  assert.equal(pool.capacity().freeBytes, free - sizeBytes);
});

test('a copy of a thin volume follows by the differences of thin snapshots', async (t) => {
  const { pool, vg } = await newThinPool(t);
  const later = (await mustFollow(t, pool)).slice(1);
  for (const bytes of later) assert.ok(bytes > 0 && bytes <= size / 2, later.join());
  assert.match(await command('dmsetup', 'status', `${vg}-pool-tpool`), / - rw /);
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name,lv_tags', `${vg}/data`), 'data moorage.dev/created');
});

for (const filesystem of ['xfs', 'btrfs']) {
  test(`a copy of a file volume on ${filesystem} follows by the extents of reflink copies`, async (t) => {
    const path = join(await directory(t), 'pool');
    await mkdir(path);
    await command(`mkfs.${filesystem}`, '-q', '-f', disks()[1] ?? '');
    await command('mount', disks()[1] ?? '', path);
    undoAfter(t, () => command('umount', path));
    const pool = await openFilePool(path);
    undoAfter(t, async () => {
      await pool.remove('data', signal);
      await pool.stop(0);
    });
    const later = (await mustFollow(t, pool)).slice(1);
    for (const bytes of later) assert.ok(bytes > 0 && bytes <= size / 2, later.join());
    assert.deepEqual((await command('ls', path)).split('\n'), ['data.img', 'data.json']);
  });
}

test('without room for copy-on-write, a copy follows by hashes', async (t) => {
  const { pool, vg } = await onNewGroup(t);
  const prepare = () => command('lvcreate', '-y', '-n', 'other', '-l', '100%FREE', vg);
  const [first, ...later] = await mustFollow(t, pool, prepare);
  assert.equal(first, size);
  for (const bytes of later) assert.ok(bytes > 0 && bytes <= size / 2, later.join());
});

test('a store that overflows stops neither the volume nor the copy', async (t) => {
  const { pool, vg } = await onNewGroup(t);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  const free = Number(await command('vgs', '--noheadings', '-o', 'vg_free_count', vg));
  await command('lvcreate', '-y', '-n', 'other', '-l', String(free - 3), vg); // leaves a store of one extent
  const copy = await FollowedCopy.create(join(await directory(t), 'copy'), sizeBytes);
  const tracking = pool.trackChanges('data');
  await copy.follow(tracking, 'next');
  assert.match(await command('lvs', '--noheadings', '-o', 'lv_name', vg), /checkpoint-/);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=8', 'conv=fsync');
  assert.equal(await copy.follow(tracking, 'next'), size);
  assert.doesNotMatch(await command('lvs', '--noheadings', '-o', 'lv_name', vg), /checkpoint-/);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=2', 'conv=fsync');
  await pool.setAccess('data', 'ro', signal);
  assert.equal(await copy.follow(tracking, 'last'), 2 * Number(mebibyte));
  assert.ok(await copy.isSameAs(devicePath));
});

test('thick checkpoints are hidden, survive a restart, and are removed with what a crash left', async (t) => {
  const { pool, vg, restart } = await onNewGroup(t);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  const copy = await FollowedCopy.create(join(await directory(t), 'copy'), sizeBytes);
  await copy.follow(pool.trackChanges('data'), 'next');
  await mustHideCheckpoints(pool, 'data');
  await write(devicePath, 'changed', 5 * 65_536);

  const restarted = await restart();
  await mustHideCheckpoints(restarted, 'data');
  const tracking = restarted.trackChanges('data');
  assert.equal(await copy.follow(tracking, 'next'), 65_536);
  // As power loss leaves it: LVM first creates the store as a volume of its own.
  await command('lvcreate', '-y', '-n', 'checkpoint-0', '-L', '4m', '--addtag', checkpointTag('data'), vg);
  const again = await restart();
  await mustHideCheckpoints(again, 'data');
  await again.trackChanges('data').end(signal);
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name', vg), 'data');
  await again.trackChanges('data').end(signal); // nothing left to do
  await again.remove('data', signal);
});

test('what a thin volume discards is zero in its copy, and a volume that never had it is not read', async (t) => {
  const { pool } = await newThinPool(t);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await command('dd', 'if=/dev/urandom', `of=${devicePath}`, 'bs=1M', 'count=8', 'conv=fsync');
  const tracking = pool.trackChanges('data');
  const first = await tracking.round('next', {}, signal);
  const megabytes = (kind: string) =>
    [...first.blocks.runs()].flatMap((run) => (run.kind === kind ? [run.offset >> 20, run.length >> 20] : []));
  assert.deepEqual(
    [megabytes('data'), megabytes('zero')],
    [
      [0, 8],
      [8, 8],
    ],
  );
  await mustHideCheckpoints(pool, 'data');
  const free = pool.capacity().freeBytes;
  await command('blkdiscard', '--offset', '1048576', '--length', '2097152', devicePath);
  await write(devicePath, 'new', 12 * 1024 ** 2);
  const { blocks } = await tracking.round('next', { complete: first.checkpoint }, signal);
  assert.deepEqual(
    [...blocks.runs()],
    [
      { kind: 'zero', offset: 1024 ** 2, length: 2 * 1024 ** 2 },
      { kind: 'data', offset: 12 * 1024 ** 2, length: 65_536 },
    ],
  );
  assert.equal(pool.capacity().freeBytes, free, 'a checkpoint does not count as a volume');
  await tracking.end(signal);
});

test('a reserved metadata snapshot is released if a crash of ours left it, and otherwise left alone', async (t) => {
  const { pool, vg, restart } = await newThinPool(t);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await write(devicePath, 'data');
  const metadata = async (message: string) => command('dmsetup', 'message', `${vg}-pool-tpool`, '0', message);
  const isReserved = async () => !/ - rw /.test(await command('dmsetup', 'status', `${vg}-pool-tpool`));

  await metadata('reserve_metadata_snap'); // by somebody else
  const tracking = pool.trackChanges('data');
  assert.ok((await tracking.round('next', {}, signal)).hashes, 'changes are found without it');
  await tracking.end(signal);
  assert.ok(await isReserved());

  await command('lvchange', '--addtag', 'moorage.dev/reads-metadata', `${vg}/data`); // as we note it before we reserve it
  const restarted = await restart();
  const { hashes, blocks } = await restarted.trackChanges('data').round('next', {}, signal);
  assert.equal(hashes, undefined);
  assert.deepEqual([...blocks.runs()].at(0), { kind: 'data', offset: 0, length: 65_536 });
  assert.ok(!(await isReserved()));

  await metadata('reserve_metadata_snap');
  await command('lvchange', '--addtag', 'moorage.dev/reads-metadata', `${vg}/data`);
  await (await restart()).trackChanges('data').end(signal);
  assert.ok(!(await isReserved()));
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name,lv_tags', vg), 'data moorage.dev/created\n  pool');
});
