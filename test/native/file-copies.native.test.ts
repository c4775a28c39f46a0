import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Run } from '../../src/base/exec.ts';
import { createdTag, filesystemTag, sourceTag } from '../../src/engine/names-and-tags.ts';
import { volumeOf } from '../../src/engine/testing/volume-of.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { Formatter } from '../../src/filesystem/format.ts';
import { Mounts } from '../../src/filesystem/mounts.ts';
import { blkid, superblockReader } from '../../src/filesystem/probe.ts';
import { run } from '../../worlds/host/processes.ts';
import { openFilePool, scratchDirectory, scratchFilesystem, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;
const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
const mounts = new Mounts({ run });

for (const filesystem of ['xfs', 'btrfs']) {
  test(
    `on ${filesystem}, a copy of a mounted volume is consistent, takes no time or space, and can be mounted`,
    native,
    async (t) => {
      const path = await scratchFilesystem(t, filesystem);
      const pool = await openFilePool(path);
      const { devicePath } = await pool.create({ id: 'data', sizeBytes: 64n * mebibyte, tags: ['claim=a'] }, signal);
      await formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal);
      const [at, copyAt] = [join(path, 'at'), join(path, 'copy-at')];
      await mkdir(at);
      await mkdir(copyAt);
      await mounts.mount({ source: devicePath, target: at, filesystem: 'ext4', options: [] }, signal);
      await writeFile(join(at, 'file'), 'before'); // in memory only, until the filesystem is frozen

      const copy = await pool.snapshot('data', { id: 'copy', tags: ['claim=b'], access: 'rw' }, signal);
      await writeFile(join(at, 'file'), 'after');

      assert.equal(copy.sizeBytes, 64n * mebibyte);
      assert.equal(copy.origin, 'data');
      assert.deepEqual([...copy.tags].sort(), ['claim=b', createdTag, filesystemTag('ext4'), sourceTag('data')].sort());
      await formatter.ensure(pool, volumeOf(pool, 'copy'), ext4, signal); // succeeds, and formats nothing
      await mounts.mount({ source: copy.devicePath, target: copyAt, filesystem: 'ext4', options: [] }, signal);
      assert.equal(await readFile(join(copyAt, 'file'), 'utf8'), 'before');
      assert.equal(await readFile(join(at, 'file'), 'utf8'), 'after');
      assert.deepEqual(await pool.snapshot('data', { id: 'copy', tags: [], access: 'rw' }, signal), copy); // repeated
    },
  );
}

test('a copy can be larger or read-only, and outlives its source', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs');
  const pool = await openFilePool(path);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await sh(`printf kept | dd of=${devicePath} conv=fsync status=none`);
  const large = await pool.snapshot('data', { id: 'large', tags: [], sizeBytes: 32n * mebibyte, access: 'rw' }, signal);
  const frozen = await pool.snapshot('data', { id: 'frozen', tags: [], access: 'ro' }, signal);
  assert.equal(await sh(`blockdev --getsize64 ${large.devicePath}`), String(32n * mebibyte));
  assert.equal(await sh(`blockdev --getro ${frozen.devicePath}`), '1');
  assert.ok(frozen.readOnly && frozen.attr === '-ri-a-----');

  await sh(`losetup -d ${frozen.devicePath}`); // like a reboot
  const restarted = await openFilePool(path);
  assert.equal(await sh(`blockdev --getro ${restarted.get('frozen')?.devicePath}`), '1');
  await restarted.remove('data', signal);
  assert.equal(restarted.get('frozen')?.origin, undefined);
  assert.equal((await openFilePool(path)).get('large')?.origin, undefined);
  for (const id of ['large', 'frozen']) {
    assert.equal(await sh(`head -c 4 ${restarted.get(id)?.devicePath}`), 'kept');
  }
});

test('unsynced writes to a device are in the copy', native, async (t) => {
  const pool = await openFilePool(await scratchFilesystem(t, 'xfs'));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await sh(`printf kept | dd of=${devicePath} status=none`);
  const copy = await pool.snapshot('data', { id: 'copy', tags: [], access: 'ro' }, signal);
  assert.equal(await sh(`head -c 4 ${copy.devicePath}`), 'kept');
});

test('copies reserve space for every block that may change', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs');
  const pool = await openFilePool(path);
  await pool.create({ id: 'data', sizeBytes: 400n * mebibyte, tags: [] }, signal);
  const before = pool.capacity().freeBytes;
  await pool.snapshot('data', { id: 'copy', tags: [], access: 'rw' }, signal);
  const spent = before - pool.capacity().freeBytes;
  assert.ok(spent >= 400n * mebibyte && spent < 410n * mebibyte, String(spent));
  await assert.rejects(pool.snapshot('data', { id: 'more', tags: [], access: 'ro' }, signal), { name: 'PoolFull' });
  await pool.remove('data', signal);
  assert.ok(pool.capacity().freeBytes > before - 10n * mebibyte, 'the last volume of a family shares no blocks');
});

test('an impossible copy is rejected and leaves nothing behind', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs');
  const pool = await openFilePool(path);
  await pool.create({ id: 'data', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await pool.create({ id: 'other', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  const wanted = { id: 'copy', tags: [], access: 'rw' } as const;
  await assert.rejects(pool.snapshot('none', wanted, signal), { code: 'NotFound' });
  await assert.rejects(pool.snapshot('data', { ...wanted, sizeBytes: mebibyte }, signal), { code: 'OutOfRange' });
  await assert.rejects(pool.snapshot('data', { ...wanted, id: '../x' }, signal), { code: 'InvalidArgument' });
  await assert.rejects(pool.snapshot('data', { ...wanted, id: 'other' }, signal), { code: 'AlreadyExists' });
  await pool.snapshot('data', wanted, signal);
  await assert.rejects(pool.snapshot('other', wanted, signal), { code: 'AlreadyExists' });
  await assert.rejects(pool.create({ id: 'copy', sizeBytes: mebibyte, tags: [] }, signal), { code: 'AlreadyExists' });
  assert.deepEqual(
    (await readdir(path)).filter((name) => name.endsWith('.new')),
    [],
  );
});

test('a copy interrupted by a crash is completed on retry', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs');
  const crashing: Run = (command, options) =>
    command[0] === 'fallocate' ? Promise.reject(new Error('power loss')) : run(command, options);
  await (await openFilePool(path)).create({ id: 'data', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  const wanted = { id: 'copy', tags: [], sizeBytes: 8n * mebibyte, access: 'rw' } as const;
  await assert.rejects((await openFilePool(path, { runs: crashing })).snapshot('data', wanted, signal), /power loss/);
  const pool = await openFilePool(path);
  assert.equal(pool.get('copy'), undefined);
  assert.equal((await pool.snapshot('data', wanted, signal)).sizeBytes, 8n * mebibyte);
});

test('a filesystem is thawed even if the copy fails', native, async (t) => {
  const pool = await openFilePool(await scratchFilesystem(t, 'ext4'));
  const target = join(await scratchDirectory(t), 'mounted');
  await mkdir(target);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal);
  await mounts.mount({ source: devicePath, target, filesystem: 'ext4', options: [] }, signal);
  await assert.rejects(pool.snapshot('data', { id: 'copy', tags: [], access: 'rw' }, signal), {
    name: 'CopyNeedsRest',
  });
  await sh(`timeout 120 sh -c 'echo written >${target}/file; sync ${target}/file'`);
});

test('a rejected copy does not thaw a filesystem that somebody else froze', native, async (t) => {
  const path = await scratchDirectory(t);
  const pool = await openFilePool(path);
  const { devicePath } = await pool.create({ id: 'source', sizeBytes: 48n * mebibyte, tags: [] }, signal);
  const mountpoint = join(path, 'mounted');
  await sh(`mkfs.ext4 -q ${devicePath} && mkdir ${mountpoint} && mount ${devicePath} ${mountpoint}`);
  await sh(`fsfreeze --freeze ${mountpoint}`); // like a backup

  const copy = pool.snapshot('source', { id: 'copy', tags: [], access: 'ro' }, signal);
  const refusal = assert.rejects(copy, /freeze failed/);
  await Promise.allSettled([refusal]);
  await sh(`fsfreeze --unfreeze ${mountpoint}`); // fails if it is no longer frozen
  await refusal;
  assert.ok(
    !(await readdir(path)).some((name) => name.includes('frozen')),
    'nothing is recorded for the next agent to thaw',
  );
});
