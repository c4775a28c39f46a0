import assert from 'node:assert/strict';
import { open, stat } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { run } from '../../src/base/exec.ts';
import type { ThickClass } from '../../src/storage/device-classes.ts';
import { Formatter } from '../../src/storage/filesystem.ts';
import type { Volume } from '../../src/storage/pool.ts';
import { blkid } from '../../src/storage/probe.ts';
import type { ServedPool } from '../../src/storage/served-pool.ts';
import { superblockReader } from '../../src/storage/superblock.ts';
import { createdTag, sourceTag } from '../../src/storage/tags.ts';
import { faults } from '../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../worlds/lvm/inside.ts';
import { Engine, mebibyte, signal, thickClass, thinClass } from './lvm-pools.ts';

interface Opened {
  readonly pool: ServedPool;
  readonly engine: Engine;
  /** The same volume group after a restart of the agent. */
  readonly restart: () => Promise<ServedPool>;
}

async function openPool(t: TestContext, vg: string, settings: Partial<ThickClass> = {}): Promise<Opened> {
  const deviceClass = thickClass(vg, settings);
  const engine = new Engine(t, [
    { name: 'mirrored', options: ['--type', 'raid1', '--mirrors', '1', '--nosync'] },
    { name: 'wide', options: ['--stripes', '2'] },
  ]);
  const restart = () => new Engine(t).open(deviceClass);
  return { pool: await engine.open(deviceClass), engine, restart };
}

async function onNewGroup(t: TestContext, settings: Partial<ThickClass> = {}, count = 1) {
  const vg = await volumeGroup(t, { disks: disks().slice(0, count) });
  return { vg, ...(await openPool(t, vg, settings)) };
}

/** What LVM itself says, to compare memory with. */
async function truth({ pool, restart }: Opened) {
  const fresh = await restart();
  assert.deepEqual(inOrder(pool.list()), inOrder(fresh.list()));
  assert.deepEqual(pool.capacity(), fresh.capacity());
}

/** LVM sorts by name, memory by age. */
function inOrder(volumes: readonly Volume[]): Volume[] {
  const sorted = volumes.map((volume) => ({ ...volume, tags: [...volume.tags].sort() }));
  return sorted.sort((a, b) => a.id.localeCompare(b.id));
}

/** The commands that went through the shell since last asked. */
function counter({ engine }: Opened) {
  let before = engine.groups.figures.commands.shell;
  return () => {
    const now = engine.groups.figures.commands.shell;
    const count = now - before;
    before = now;
    return count;
  };
}

test('a volume is made, found again, tagged, grown and removed, one command each', async (t) => {
  const opened = await onNewGroup(t);
  const { pool, vg } = opened;
  const commands = counter(opened);
  const made = await pool.create(
    { id: 'data', sizeBytes: 10n * mebibyte, tags: ['moorage.dev/claim=ns/name'] },
    signal,
  );
  assert.equal(made.sizeBytes, 12n * mebibyte); // whole extents of 4 MiB
  assert.equal(made.devicePath, `/dev/${vg}/data`);
  assert.ok((await stat(made.devicePath)).isBlockDevice());
  assert.equal(commands(), 1);
  await truth(opened);

  await pool.addTags('data', ['moorage.dev/filesystem=ext4'], signal);
  const grown = await pool.grow('data', 20n * mebibyte, signal);
  assert.equal(grown.sizeBytes, 20n * mebibyte);
  assert.equal(commands(), 2);
  await truth(opened);

  await pool.remove('data', signal);
  assert.equal(commands(), 1);
  await truth(opened);
  assert.deepEqual([opened.engine.groups.figures.shellRestarts, opened.engine.groups.figures.shellFailures], [0, 0]);
});

test('to start, LVM is asked once a group, and told nothing', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '32m', '-n', 'pool', vg);
  const before = new Engine(t);
  await (await before.open(thickClass(vg))).create({ id: 'thick', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await (await before.open(thinClass(vg))).create({ id: 'thin', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await before.groups.stop();

  const engine = new Engine(t);
  const pools = await Promise.all([engine.open(thickClass(vg)), engine.open(thinClass(vg))]);
  assert.deepEqual(
    pools.map((pool) => pool.list().map(({ id }) => id)),
    [['thick'], ['thin']],
  );
  assert.deepEqual(engine.groups.figures.commands, { shell: 0, exec: 1 });
});

test('a restart finds its volumes, and activates what a reboot left inactive', async (t) => {
  const { pool, restart, vg } = await onNewGroup(t);
  const made = await pool.create({ id: 'data', sizeBytes: 4n * mebibyte, tags: ['a', 'b'] }, signal);
  await command('vgchange', '-an', vg);
  const again = await restart();
  assert.deepEqual(again.get('data'), made);
  await using device = await open(made.devicePath, 'r');
  assert.ok(device.fd > 0);
});

test('stripes and spare are what the class says', async (t) => {
  const opened = await onNewGroup(t, { stripes: 2, stripeSize: '64k', spareBytes: 100n * mebibyte }, 2);
  const { pool, vg } = opened;
  const { freeBytes } = pool.capacity();
  const made = await pool.create({ id: 'wide', sizeBytes: 12n * mebibyte, tags: [] }, signal);
  assert.equal(made.sizeBytes, 16n * mebibyte);
  assert.equal(pool.capacity().freeBytes, freeBytes - 16n * mebibyte);
  assert.equal(await command('lvs', '--noheadings', '-o', 'stripes,stripe_size', `${vg}/wide`), '2 64.00k');
  await assert.rejects(pool.create({ id: 'all', sizeBytes: freeBytes + 1n, tags: [] }, signal), { name: 'PoolFull' });
  await truth(opened);
});

test('options of the class reach lvcreate, and what they cost is known after', async (t) => {
  const opened = await onNewGroup(t, { lvcreateOptions: ['--type', 'raid1', '--mirrors', '1', '--nosync'] }, 2);
  const before = opened.pool.capacity().freeBytes;
  await opened.pool.create({ id: 'safe', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  assert.ok(before - opened.pool.capacity().freeBytes > 16n * mebibyte, 'both legs and their metadata');
  await truth(opened);
});

test('a class of options replaces those of the device class, also the size of a row', async (t) => {
  const opened = await onNewGroup(t, { stripes: 2 }, 2);
  const made = await opened.pool.create(
    { id: 'safe', sizeBytes: 4n * mebibyte, tags: [], optionClass: 'mirrored' },
    signal,
  );
  assert.equal(made.sizeBytes, 4n * mebibyte);
  assert.equal(made.attr.charAt(0), 'R');
  await truth(opened);
});

test('mirrors that would eat into the spare are taken back', async (t) => {
  const free = (await onNewGroup(t, {}, 2)).pool.capacity().freeBytes;
  const vg = await volumeGroup(t, { disks: disks().slice(2, 4) });
  const opened = await openPool(t, vg, {
    lvcreateOptions: ['--type', 'raid1', '--nosync'],
    spareBytes: free - 40n * mebibyte,
  });
  await assert.rejects(opened.pool.create({ id: 'big', sizeBytes: 24n * mebibyte, tags: [] }, signal), {
    code: 'ResourceExhausted',
  });
  await opened.pool.create({ id: 'small', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await assert.rejects(opened.pool.grow('small', 20n * mebibyte, signal), { code: 'ResourceExhausted' }); // 24 of 16
  await opened.pool.grow('small', 12n * mebibyte, signal);
  assert.deepEqual(
    opened.pool.list().map(({ id }) => id),
    ['small'],
  );
  await truth(opened);
});

test('copy-on-write snapshots keep what was, never overflow, and are not taken away with their origin', async (t) => {
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
  await truth(opened);
  await pool.remove('frozen', signal);
  await pool.remove('source', signal);
  await truth(opened);
});

test('a copy-on-write snapshot is restored into a volume of its own, which outlives it and can be larger', async (t) => {
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
  await truth(opened);
  await pool.remove('frozen', signal);
  await pool.remove('source', signal);
  await pool.grow('restored', 32n * mebibyte, signal);
  assert.equal((await command('sh', '-c', `head -c 16M ${restored.devicePath} | sha256sum`)).split(' ')[0], before);
  await truth(opened);
});

test('a volume that thin volumes read from is not removed from under them', async (t) => {
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

test('a volume grows by the stripes that it was made with, and memory with it', async (t) => {
  const opened = await onNewGroup(t, {}, 2);
  const { pool } = opened;
  const wide = await pool.create({ id: 'wide', sizeBytes: 8n * mebibyte, tags: [], optionClass: 'wide' }, signal);
  assert.equal((await pool.grow('wide', wide.sizeBytes + 1n, signal)).sizeBytes, 16n * mebibyte);
  await truth(opened);
});

test("an administrator's volume is not handed out as a new one of its name", async (t) => {
  const { pool, vg } = await onNewGroup(t);
  await command('lvcreate', '-y', '-L', '16m', '-n', 'data', vg);
  await assert.rejects(pool.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: ['claim=mine'] }, signal), {
    name: 'NotMadeHere',
    code: 'AlreadyExists',
  });
});

test('free space on too few disks is told as that', async (t) => {
  const opened = await onNewGroup(t, { stripes: 2 }, 2);
  await command('lvcreate', '-y', '-l', '100%PVS', '-n', 'full', opened.vg, disks()[1] ?? '');
  await assert.rejects(opened.pool.create({ id: 'wide', sizeBytes: 8n * mebibyte, tags: [] }, signal), {
    code: 'ResourceExhausted',
    message: /with its mirrors and stripes does not fit on the disks/,
  });
  await truth(opened);
});

test('the store of a snapshot that was never finished is no volume, and is replaced when it is asked for again', async (t) => {
  const opened = await onNewGroup(t, { snapshots: 'copy-on-write' });
  const { pool, vg } = opened;
  await pool.create({ id: 'source', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  // As power loss leaves it: LVM makes the store under the final name first.
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
  const made = await pool.snapshot('source', { id: 'frozen', tags: [], access: 'rw' }, signal);
  assert.equal(made.origin, 'source');
  assert.equal(made.sizeBytes, 8n * mebibyte);
  await assert.rejects(pool.snapshot('frozen', { id: 'twice', tags: [], access: 'ro' }, signal), {
    code: 'Unimplemented',
  });
  await truth(opened);
  await pool.remove('frozen', signal);
});

test('a class that does not ask for them makes no snapshots', async (t) => {
  const { pool } = await onNewGroup(t);
  await pool.create({ id: 'a', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await assert.rejects(pool.snapshot('a', { id: 'b', tags: [], access: 'ro' }, signal), { code: 'Unimplemented' });
});

test('what an earlier volume held is not seen in a new one', async (t) => {
  const { pool } = await onNewGroup(t);
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  const old = await pool.create({ id: 'old', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await formatter.ensure(pool, 'old', 'ext4', signal);
  assert.equal((await blkid(run)(old.devicePath, signal)).kind, 'found');
  await pool.remove('old', signal);
  const { devicePath } = await pool.create({ id: 'new', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  assert.deepEqual(await blkid(run)(devicePath, signal), { kind: 'empty' });
});

test('a volume in use is not removed', async (t) => {
  const { pool } = await onNewGroup(t);
  const { devicePath } = await pool.create({ id: 'busy', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  {
    await using _ = await open(devicePath, 'r');
    await assert.rejects(pool.remove('busy', signal), { name: 'VolumeInUse' });
    assert.ok(pool.get('busy'));
  }
  await pool.remove('busy', signal);
});

test('a volume group that is not there is named', async (t) => {
  await assert.rejects(openPool(t, 'no-such-group'), { name: 'PoolMissing', message: /no-such-group .* create it/ });
});

test('a foreign volume is counted, and an outside change is seen after a refresh', async (t) => {
  const opened = await onNewGroup(t);
  await command('lvcreate', '-y', '-n', 'foreign', '-L', '40m', opened.vg);
  await opened.pool.refresh(signal);
  assert.equal(opened.pool.get('foreign')?.sizeBytes, 40n * mebibyte);
  await truth(opened);
});

test('callers that leave at any moment leave no volume behind that is not wiped', async (t) => {
  const opened = await onNewGroup(t);
  const { pool } = opened;
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  for (let i = 0; i < 5; i++) {
    await pool.create({ id: 'old', sizeBytes: 32n * mebibyte, tags: [] }, signal);
    await formatter.ensure(pool, 'old', 'ext4', signal);
    await pool.remove('old', signal);

    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), 20 * i);
    await Promise.allSettled([pool.create({ id: 'new', sizeBytes: 32n * mebibyte, tags: [] }, abort.signal)]);
    clearTimeout(timer);
    await truth(opened);
    const { devicePath } = await pool.create({ id: 'new', sizeBytes: 32n * mebibyte, tags: [] }, signal);
    assert.deepEqual(await blkid(run)(devicePath, signal), { kind: 'empty' });
    await pool.remove('new', signal);
  }
});

test('a creation that was killed before it wiped is found out: the old filesystem is not taken for the new one', async (t) => {
  const { pool, vg } = await onNewGroup(t);
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  await pool.create({ id: 'old', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await formatter.ensure(pool, 'old', 'ext4', signal);
  await pool.remove('old', signal);
  await command('lvcreate', '-y', '-n', 'new', '-L', '32m', '-W', 'n', '-Z', 'n', '--addtag', createdTag, vg);
  await pool.refresh(signal);
  await assert.rejects(formatter.ensure(pool, 'new', 'ext4', signal), { name: 'FilesystemForeign' });
});

test('a device on a broken disk is unknown, never empty, and is not formatted', async (t) => {
  const [disk = ''] = disks();
  const faulty = await faults.error(t, disk);
  const vg = await volumeGroup(t, { disks: [faulty.path] });
  const { pool } = await openPool(t, vg);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await faulty.breakNow();
  await command('blockdev', '--flushbufs', devicePath).catch(() => undefined); // nothing may come from the cache
  assert.equal((await blkid(run)(devicePath, signal)).kind, 'unknown');
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  await assert.rejects(formatter.ensure(pool, 'data', 'ext4', signal), { name: 'DeviceUnreadable' });
});
