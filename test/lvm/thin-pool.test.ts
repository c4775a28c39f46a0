import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { VolumeGroups } from '../../src/engine/lvm/volume-groups.ts';
import { poolOpener } from '../../src/engine/storage-engine.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { Engine, mebibyte, signal, thinClass } from './lvm-pools.ts';
import { actualState, newThinPool, read, sizeOf, write } from './thin-pools.ts';

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

test('growth resumes the device of the volume alone, while LVM would suspend all volumes of the pool', async (t) => {
  const { vg } = await newThinPool(t);
  const programs: string[] = [];
  const recorded: Run = (argv, options) => {
    programs.push(argv.slice(0, 2).join(' '));
    return run(argv, options);
  };
  const engine = new Engine(t, [], ['lvm'], { run: recorded, env: process.env });
  const pool = await engine.open(thinClass(vg));
  for (const id of ['data', 'other']) await pool.create({ id, sizeBytes: 4n * mebibyte, tags: [] }, signal);
  programs.length = 0;
  const { devicePath } = await pool.grow('data', 64n * mebibyte, signal);
  assert.equal(await sizeOf(devicePath), 64n * mebibyte);
  const resumed = programs.filter((program) => /^dmsetup (load|suspend|resume)$/.test(program));
  assert.deepEqual(resumed, ['dmsetup load', 'dmsetup resume']);
});

test('without dmsetup, LVM grows the device itself', async (t) => {
  const { vg } = await newThinPool(t);
  const pool = await new Engine(t, [], ['sh', '-c', 'exec lvm "$@"', 'lvm']).open(thinClass(vg));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await pool.grow('data', 24n * mebibyte, signal);
  assert.equal(await sizeOf(devicePath), 24n * mebibyte);
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
