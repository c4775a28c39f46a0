import assert from 'node:assert/strict';
import { constants, open, stat } from 'node:fs/promises';
import { test } from 'node:test';
import { run } from '../../src/base/exec.ts';
import { createdTag, filesystemTag, rawTag, unusedTag } from '../../src/engine/names-and-tags.ts';
import { volumeOf } from '../../src/engine/testing/volume-of.ts';
import { allZero } from '../../src/filesystem/all-zero.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { Formatter } from '../../src/filesystem/format.ts';
import { blkid, superblockReader } from '../../src/filesystem/probe.ts';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { Engine, mebibyte, signal, thickClass, thinClass } from './lvm-pools.ts';
import { actualState, type Opened, onNewGroup, openPool } from './thick-pools.ts';

/** The commands that went through the shell since the last call. */
function counter({ engine }: Opened) {
  let before = engine.groups.counts.commands.shell;
  return () => {
    const now = engine.groups.counts.commands.shell;
    const count = now - before;
    before = now;
    return count;
  };
}

test('a volume is created, found again, tagged, grown and removed, with one command each', async (t) => {
  const opened = await onNewGroup(t);
  const { pool, vg } = opened;
  const commands = counter(opened);
  const created = await pool.create(
    { id: 'data', sizeBytes: 10n * mebibyte, tags: ['moorage.dev/claim=ns/name'] },
    signal,
  );
  assert.equal(created.sizeBytes, 12n * mebibyte); // whole extents of 4 MiB
  assert.equal(created.devicePath, `/dev/${vg}/data`);
  assert.ok((await stat(created.devicePath)).isBlockDevice());
  assert.equal(commands(), 1);
  await actualState(opened);

  await pool.addTags('data', ['moorage.dev/filesystem=ext4'], signal);
  await pool.addTags('data', ['moorage.dev/claim=ns/another'], signal);
  const grown = await pool.grow('data', 20n * mebibyte, signal);
  assert.equal(grown.sizeBytes, 20n * mebibyte);
  assert.deepEqual(grown.tags.toSorted().slice(0, 2), ['moorage.dev/claim=ns/another', 'moorage.dev/created']);
  assert.equal(commands(), 3);
  await actualState(opened);

  await pool.remove('data', signal);
  assert.equal(commands(), 1);
  await actualState(opened);
  assert.deepEqual([opened.engine.groups.counts.shellRestarts, opened.engine.groups.counts.shellFailures], [0, 0]);
});

test('a start runs one report per volume group, and changes nothing', async (t) => {
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
  assert.deepEqual(engine.groups.counts.commands, { shell: 0, exec: 1 });
});

test('a restart finds its volumes, and activates those that a reboot left inactive', async (t) => {
  const { pool, restart, vg } = await onNewGroup(t);
  const created = await pool.create({ id: 'data', sizeBytes: 4n * mebibyte, tags: ['a', 'b'] }, signal);
  await command('vgchange', '-an', vg);
  const again = await restart();
  assert.deepEqual(again.get('data'), created);
  await using device = await open(created.devicePath, 'r');
  assert.ok(device.fd > 0);
});

test("an administrator's volume is not returned as a new volume of the same name", async (t) => {
  const { pool, vg } = await onNewGroup(t);
  await command('lvcreate', '-y', '-L', '16m', '-n', 'data', vg);
  await assert.rejects(pool.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: ['claim=mine'] }, signal), {
    name: 'NotCreatedHere',
    code: 'AlreadyExists',
  });
});

test('data of an earlier volume is not visible in a new one', async (t) => {
  const { pool } = await onNewGroup(t);
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  const old = await pool.create({ id: 'old', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await formatter.ensure(pool, volumeOf(pool, 'old'), ext4, signal);
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

test('the error of a missing volume group names it', async (t) => {
  await assert.rejects(openPool(t, 'no-such-group'), { name: 'PoolMissing', message: /no-such-group .* create it/ });
});

test('a foreign volume is counted, and an outside change is visible after a refresh', async (t) => {
  const opened = await onNewGroup(t);
  await command('lvcreate', '-y', '-n', 'foreign', '-L', '40m', opened.vg);
  await opened.pool.refresh(signal);
  assert.equal(opened.pool.get('foreign')?.sizeBytes, 40n * mebibyte);
  await actualState(opened);
});

test('a caller that aborts at any moment leaves no volume that is not wiped', async (t) => {
  const opened = await onNewGroup(t);
  const { pool } = opened;
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  for (let i = 0; i < 5; i++) {
    await pool.create({ id: 'old', sizeBytes: 32n * mebibyte, tags: [] }, signal);
    await formatter.ensure(pool, volumeOf(pool, 'old'), ext4, signal);
    await pool.remove('old', signal);

    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), 20 * i);
    await Promise.allSettled([pool.create({ id: 'new', sizeBytes: 32n * mebibyte, tags: [] }, abort.signal)]);
    clearTimeout(timer);
    await actualState(opened);
    const { devicePath } = await pool.create({ id: 'new', sizeBytes: 32n * mebibyte, tags: [] }, signal);
    assert.deepEqual(await blkid(run)(devicePath, signal), { kind: 'empty' });
    await pool.remove('new', signal);
  }
});

test('a creation killed before wiping is detected: the old filesystem is not taken for a new one', async (t) => {
  const { pool, vg } = await onNewGroup(t);
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  await pool.create({ id: 'old', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await formatter.ensure(pool, volumeOf(pool, 'old'), ext4, signal);
  await pool.remove('old', signal);
  await command('lvcreate', '-y', '-n', 'new', '-L', '32m', '-W', 'n', '-Z', 'n', '--addtag', createdTag, vg);
  await pool.refresh(signal);
  await assert.rejects(formatter.ensure(pool, volumeOf(pool, 'new'), ext4, signal), { name: 'FilesystemForeign' });
});

test('a creation killed before wiping is repeated if nobody can have used the volume', async (t) => {
  const { pool, vg, restart } = await onNewGroup(t);
  const owner = 'moorage.dev/volume=pvc-1';
  const old = await pool.create({ id: 'old', sizeBytes: 64n * mebibyte, tags: [] }, signal);
  await command(
    'sh',
    '-c',
    `tr '\\0' x </dev/zero | dd of=${old.devicePath} bs=1M count=64 iflag=fullblock conv=fsync`,
  );
  await pool.remove('old', signal);
  const tags = {
    unused: [createdTag, owner, unusedTag],
    viaTopolvm: [createdTag, owner], // by its lvmd, which cannot tag a volume when it is used
    raw: [createdTag, owner, rawTag],
    formatted: [createdTag, owner, filesystemTag('ext4')],
    theirs: [createdTag], // by a caller that sets no tag before it uses a volume
    copied: [createdTag, owner, unusedTag],
    held: [createdTag, owner, unusedTag],
  };
  for (const [name, given] of Object.entries(tags)) {
    await command(
      'lvcreate',
      '-y',
      '-n',
      name,
      '-L',
      '4m',
      '-Wn',
      '-Zn',
      ...given.flatMap((tag) => ['--addtag', tag]),
      vg,
    );
  }
  await command('lvcreate', '-y', '-s', '-n', 'copy', '-L', '4m', `${vg}/copied`);
  await using _ = await open(`/dev/${vg}/held`, constants.O_RDONLY | constants.O_EXCL);

  const restarted = await restart();
  const first = async (id: string) => {
    const request = { id, sizeBytes: 4n * mebibyte, tags: id === 'theirs' ? [] : [owner] };
    const { devicePath } = await restarted.create(request, signal);
    await command('blockdev', '--flushbufs', devicePath);
    return command('sh', '-c', `head -c 1 ${devicePath} | tr '\\0' 0`);
  };
  assert.equal(await first('unused'), '0');
  for (const kept of ['viaTopolvm', 'raw', 'formatted', 'theirs', 'copied', 'held'])
    assert.equal(await first(kept), 'x', kept);
  await command('sh', '-c', `printf y | dd of=/dev/${vg}/unused conv=fsync`);
  assert.equal(await first('unused'), 'y', 'this engine does not wipe its own volume again');
});

test('a device on a broken disk is unknown, never empty, and is not formatted', async (t) => {
  const [disk = ''] = disks();
  const faulty = await faults.error(t, disk);
  const vg = await volumeGroup(t, { disks: [faulty.path] });
  const { pool } = await openPool(t, vg);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await faulty.breakNow();
  await command('blockdev', '--flushbufs', devicePath).catch(() => undefined); // reads must not come from the cache
  assert.equal((await blkid(run)(devicePath, signal)).kind, 'unknown');
  assert.equal((await allZero(run)(devicePath, signal)).kind, 'unknown');
  const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
  await assert.rejects(formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal), { name: 'DeviceUnreadable' });
});
