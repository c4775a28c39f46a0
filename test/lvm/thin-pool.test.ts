import assert from 'node:assert/strict';
import { open, stat } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { CommandFailed, type Run, run } from '../../src/base/exec.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { ThinClass } from '../../src/engine/config/device-classes.ts';
import { deviceMapperName, removedThinOrphan } from '../../src/engine/lvm/thin-device.ts';
import { VolumeGroups } from '../../src/engine/lvm/volume-groups.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { poolOpener } from '../../src/engine/storage-engine.ts';
import { filesystemTag, unfinishedTag } from '../../src/engine/tags.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { Engine, mebibyte, signal, thinClass } from './lvm-pools.ts';

async function newThinPool(t: TestContext, settings: Partial<ThinClass> = {}, poolSize = '256m') {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', poolSize, '--poolmetadatasize', '4m', '-n', 'pool', vg);
  const engine = new Engine(t);
  const deviceClass = thinClass(vg, settings);
  const pool = await engine.open(deviceClass);
  const restart = () => new Engine(t).open(deviceClass);
  return { vg, engine, pool, restart };
}

/** LVM's own report, to compare the cache with. */
async function actualState(pool: ServedPool, restart: () => Promise<ServedPool>) {
  const fresh = await restart();
  assert.deepEqual(byId(pool), byId(fresh));
  assert.equal(pool.capacity().freeBytes, fresh.capacity().freeBytes);
}

function byId(pool: ServedPool) {
  return pool.list().toSorted((a, b) => a.id.localeCompare(b.id));
}

const sizeOf = async (path: string) => BigInt(await command('blockdev', '--getsize64', path));

async function write(path: string, text: string, position = 0) {
  await using device = await open(path, 'r+');
  await device.write(text, position);
  await device.sync();
}

async function read(path: string, length: number, position = 0) {
  await using device = await open(path, 'r');
  return (await device.read(Buffer.alloc(length), 0, length, position)).buffer.toString();
}

test('a filling pool is measured without LVM, with the same result as LVM', async (t) => {
  const { vg } = await newThinPool(t);
  const clock = new ManualClock();
  const programs: string[] = [];
  const counted: Run = (argv, options) => {
    programs.push(argv.slice(0, 2).join(' '));
    return run(argv, options);
  };
  const shared = { run: counted, clock, log: silentLog };
  const groups = new VolumeGroups({ ...shared, command: ['lvm'], env: process.env });
  undoAfter(t, () => groups.stop());
  const open = poolOpener({ ...shared, groups, stateDirectory: '/nowhere' });
  const pool = await open({ deviceClass: thinClass(vg), optionClasses: [] }, signal);
  undoAfter(t, () => pool.stop(0));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 240n * mebibyte, tags: [] }, signal);
  const writes = (fromMb: number, count: number) =>
    command(
      'dd',
      'if=/dev/zero',
      `of=${devicePath}`,
      'bs=1M',
      `seek=${fromMb}`,
      `count=${count}`,
      'conv=fsync',
      'status=none',
    );
  await writes(0, 128);
  await pool.refresh(signal);
  assert.equal(pool.capacity().thin?.dataPercent, 50);

  await writes(128, 110);
  const changed = Promise.withResolvers<void>();
  pool.onChange(changed.resolve);
  programs.length = 0;
  clock.advance(25_000);
  await changed.promise;
  assert.deepEqual(programs, ['dmsetup status']);
  const { thin, freeBytes } = pool.capacity();
  const output = await command('lvs', '--noheadings', '-o', 'data_percent,metadata_percent', `${vg}/pool`);
  assert.deepEqual([thin?.dataPercent, thin?.metadataPercent], output.split(/\s+/).map(Number));
  assert.equal(freeBytes, 0n, 'above max-data-percent');
});

test('a thin volume is created, grown, tagged and removed, and the cache matches LVM', async (t) => {
  const { pool, restart, vg, engine } = await newThinPool(t);
  const created = await pool.create(
    { id: 'data', sizeBytes: 10n * mebibyte, tags: ['moorage.dev/claim=ns/name'] },
    signal,
  );
  assert.equal(created.sizeBytes, 12n * mebibyte);
  assert.equal(created.devicePath, `/dev/${vg}/data`);
  assert.ok((await stat(created.devicePath)).isBlockDevice());
  await actualState(pool, restart);

  await pool.addTags('data', ['moorage.dev/filesystem=ext4'], signal);
  await write(created.devicePath, 'kept');
  const grown = await pool.grow('data', 40n * mebibyte, signal);
  assert.equal(grown.sizeBytes, 40n * mebibyte);
  assert.equal(await sizeOf(created.devicePath), 40n * mebibyte);
  assert.equal(await read(created.devicePath, 4), 'kept');
  await write(created.devicePath, 'end', Number(40n * mebibyte) - 3);
  await actualState(pool, restart);

  await pool.remove('data', signal);
  assert.deepEqual(pool.list(), []);
  await actualState(pool, restart);
  assert.equal(engine.groups.counts.shellFailures, 0);
});

test('volumes and snapshots never exceed the overprovision ratio', async (t) => {
  const thinPool = { name: 'pool', overprovisionRatio: 2, maxDataPercent: 90, maxMetadataPercent: 85 };
  const { pool } = await newThinPool(t, { thinPool });
  assert.equal(pool.capacity().freeBytes, 512n * mebibyte);
  await pool.create({ id: 'a', sizeBytes: 200n * mebibyte, tags: [] }, signal);
  await pool.snapshot('a', { id: 'b', tags: [], access: 'ro' }, signal);
  assert.equal(pool.capacity().freeBytes, 112n * mebibyte);
  await assert.rejects(pool.snapshot('a', { id: 'c', tags: [], access: 'rw' }, signal), { code: 'ResourceExhausted' });
  await assert.rejects(pool.grow('a', 316n * mebibyte, signal), { code: 'ResourceExhausted' });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 4 }, (_, i) => pool.create({ id: `v${i}`, sizeBytes: 50n * mebibyte, tags: [] }, signal)),
  );
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 2); // 52 MiB each
});

test('a nearly full pool rejects new volumes', async (t) => {
  const thinPool = { name: 'pool', overprovisionRatio: 10, maxDataPercent: 40, maxMetadataPercent: 85 };
  const { vg, pool, restart } = await newThinPool(t, { thinPool }, '64m');
  const { devicePath } = await pool.create({ id: 'full', sizeBytes: 64n * mebibyte, tags: [] }, signal);
  await command('dd', 'if=/dev/zero', `of=${devicePath}`, 'bs=1M', 'count=32', 'conv=fsync');
  const fresh = await restart(); // measures again
  await assert.rejects(fresh.create({ id: 'more', sizeBytes: 4n * mebibyte, tags: [] }, signal), {
    name: 'ThinPoolFilling',
    code: 'ResourceExhausted',
    message: new RegExp(`${vg}/pool has used 50 % of its data.*max-data-percent 40, .*extend the pool`),
  });
  await assert.rejects(fresh.grow('full', 128n * mebibyte, signal), { name: 'ThinPoolFilling' });
  assert.equal(fresh.capacity().freeBytes, 0n);
  assert.equal(fresh.capacity().thin?.dataPercent, 50);
});

test('snapshots keep the data of their source; a clone is writable and can be larger', async (t) => {
  const { pool, restart } = await newThinPool(t);
  const { devicePath } = await pool.create({ id: 'source', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await write(devicePath, 'before');
  const snapshot = await pool.snapshot('source', { id: 'frozen', tags: ['t'], access: 'ro' }, signal);
  const clone = await pool.snapshot(
    'source',
    { id: 'clone', tags: [], access: 'rw', sizeBytes: 32n * mebibyte },
    signal,
  );
  const larger = await pool.snapshot(
    'source',
    { id: 'larger', tags: [], access: 'ro', sizeBytes: 32n * mebibyte },
    signal,
  );
  await write(devicePath, 'after!');
  await write(clone.devicePath, 'mine!!');

  assert.equal(snapshot.origin, 'source');
  assert.ok(snapshot.readOnly);
  assert.equal(await read(snapshot.devicePath, 6), 'before');
  await assert.rejects(write(snapshot.devicePath, 'x'));
  assert.equal(await sizeOf(clone.devicePath), 32n * mebibyte);
  assert.ok(larger.readOnly);
  assert.equal(await sizeOf(larger.devicePath), 32n * mebibyte);
  await assert.rejects(write(larger.devicePath, 'x'));
  await actualState(pool, restart);

  await pool.remove('source', signal); // thin snapshots are independent
  assert.equal(await read(clone.devicePath, 6), 'mine!!');
  const again = await pool.snapshot('source', { id: 'frozen', tags: ['t'], access: 'ro' }, signal);
  assert.equal(again.id, 'frozen');
  await assert.rejects(pool.snapshot('source', { id: 'other', tags: [], access: 'ro' }, signal), { code: 'NotFound' });
  await assert.rejects(pool.snapshot('clone', { id: 'tiny', tags: [], access: 'ro', sizeBytes: mebibyte }, signal), {
    code: 'OutOfRange',
  });
  const unrounded = { id: 'unrounded', tags: [], access: 'rw', sizeBytes: 32n * mebibyte - 4096n } as const;
  assert.equal((await pool.snapshot('clone', unrounded, signal)).sizeBytes, 32n * mebibyte);
  await actualState(pool, restart);
});

test('growth among many volumes does not suspend each of them, as LVM does', async (t) => {
  const { pool, vg } = await newThinPool(t);
  for (let i = 0; i < 40; i++) await pool.create({ id: `v${i}`, sizeBytes: 4n * mebibyte, tags: [] }, signal);
  const ours = await quickest([1, 2, 3], (i) => pool.grow(`v${i}`, 64n * mebibyte, signal));
  const lvms = await quickest([4, 5, 6], (i) => command('lvextend', '-y', '-L', '64m', `${vg}/v${i}`));
  assert.equal(await sizeOf(`/dev/${vg}/v1`), 64n * mebibyte);
  t.diagnostic(`${ours.toFixed(0)} ms, LVM by itself ${lvms.toFixed(0)} ms`);
  assert.ok(ours < lvms / 2);
});

/** In milliseconds; the best of several, because anything may delay one of them. */
async function quickest(volumes: readonly number[], work: (volume: number) => Promise<unknown>): Promise<number> {
  let bestMs = Infinity;
  for (const volume of volumes) {
    const start = performance.now();
    await work(volume);
    bestMs = Math.min(bestMs, performance.now() - start);
  }
  return bestMs;
}

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

test('without dmsetup, LVM grows the device itself', async (t) => {
  const { vg } = await newThinPool(t);
  const pool = await new Engine(t, [], ['sh', '-c', 'exec lvm "$@"', 'lvm']).open(thinClass(vg));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await pool.grow('data', 24n * mebibyte, signal);
  assert.equal(await sizeOf(devicePath), 24n * mebibyte);
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

/** As power loss leaves it: in the metadata of the volume group, but unknown to the pool. */
async function becomeGhost(vg: string, id: string) {
  const thinId = await command('lvs', '--noheadings', '-o', 'thin_id', `${vg}/${id}`);
  await command('lvchange', '-an', `${vg}/${id}`);
  await command('dmsetup', 'message', `${deviceMapperName(vg, 'pool')}-tpool`, '0', `delete ${thinId}`);
}

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

test('waiting removals are combined into one command', async (t) => {
  const { pool, engine, vg } = await newThinPool(t);
  const ids = Array.from({ length: 8 }, (_, i) => `v${i}`);
  for (const id of ids) await pool.create({ id, sizeBytes: 4n * mebibyte, tags: [] }, signal);
  const before = engine.groups.counts.commands.shell;
  const mapped = deviceName('on-top');
  await command('dmsetup', 'create', mapped, '--table', `0 8192 linear /dev/${vg}/v3 0`);
  const outcomes = await Promise.allSettled(ids.map((id) => pool.remove(id, signal)));
  await command('dmsetup', 'remove', mapped);
  assert.deepEqual(
    outcomes.map(({ status }) => status === 'rejected'),
    ids.map((id) => id === 'v3'),
  );
  assert.equal(engine.groups.counts.commands.shell - before, 1);
  assert.deepEqual(
    pool.list().map(({ id }) => id),
    ['v3'],
  );
});

test('the error of a missing pool names it', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await assert.rejects(new Engine(t).open(thinClass(vg)), { name: 'PoolMissing', message: /no thin pool pool/ });
});

test('the tags of the volumes on a disk are enough to identify their owners', async (t) => {
  const { pool, restart } = await newThinPool(t);
  await pool.create({ id: 'a', sizeBytes: 4n * mebibyte, tags: ['moorage.dev/claim=ns/a#1', 'x:y&z!'] }, signal);
  const fresh = await restart();
  assert.ok(fresh.get('a')?.tags.includes('moorage.dev/claim=ns/a#1'));
  assert.ok(fresh.get('a')?.tags.includes('x:y&z!'));
});
