import assert from 'node:assert/strict';
import { mkdir, open, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Run } from '../../src/base/exec.ts';
import { createdTag, filesystemTag } from '../../src/engine/names-and-tags.ts';
import { volumeOf } from '../../src/engine/testing/volume-of.ts';
import { allZero } from '../../src/filesystem/all-zero.ts';
import { btrfs } from '../../src/filesystem/btrfs.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { type Filesystem, filesystems } from '../../src/filesystem/filesystem.ts';
import { Formatter, filesystemUuid } from '../../src/filesystem/format.ts';
import { Mounts } from '../../src/filesystem/mounts.ts';
import { blkid, superblockReader } from '../../src/filesystem/probe.ts';
import { xfs } from '../../src/filesystem/xfs.ts';
import { run } from '../../worlds/host/processes.ts';
import { openFilePool, scratchDirectory, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const probe = blkid(run);
const mounts = new Mounts({ run });
const formatter = new Formatter({ run, probe, superblock: superblockReader() });

/** A new volume in its own pool, and a directory to mount it at. */
async function newVolume(t: TestContext) {
  const directory = await scratchDirectory(t);
  const path = join(directory, 'pool');
  const target = join(directory, 'a target'); // with a space, because paths may contain one
  await mkdir(path);
  await mkdir(target);
  const pool = await openFilePool(path);
  const volume = await pool.create({ id: 'data', sizeBytes: 320n * 1024n ** 2n, tags: [] }, signal);
  const mount = (filesystem: Filesystem, options: string[] = []) =>
    mounts.mount({ source: volume.devicePath, target, filesystem: filesystem.name, options }, signal);
  return { directory, target, pool, volume, mount };
}

for (const filesystem of filesystems) {
  test(`${filesystem.name}: a new volume is formatted once, mounted, and keeps its data`, native, async (t) => {
    const { target, pool, volume, mount } = await newVolume(t);
    assert.deepEqual(await probe(volume.devicePath, signal), { kind: 'empty' });
    await formatter.ensure(pool, volumeOf(pool, 'data'), filesystem, signal);
    await mount(filesystem);
    await mount(filesystem); // repeated: one mount still
    await writeFile(join(target, 'file'), 'kept');
    await mounts.unmount(target, signal);
    assert.equal(await mounts.at(target), undefined);

    assert.deepEqual(pool.get('data')?.tags, [createdTag, filesystemTag(filesystem.name)]);
    await formatter.ensure(pool, volumeOf(pool, 'data'), filesystem, signal);
    const found = await probe(volume.devicePath, signal);
    assert.ok(found.kind === 'found' && found.filesystem === filesystem.name && found.uuid === filesystemUuid('data'));
    await mount(filesystem, ['noatime']);
    assert.ok((await mounts.at(target))?.options.includes('noatime'));
    assert.equal(await readFile(join(target, 'file'), 'utf8'), 'kept');
  });
}

test('one pod can write to a volume that another pod mounts read-only', native, async (t) => {
  const { directory, target, pool, volume, mount } = await newVolume(t);
  await formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal);
  await mount(ext4);
  const reader = join(directory, 'reader');
  await mkdir(reader);
  const request = { source: volume.devicePath, target: reader, filesystem: 'ext4', options: [] };
  t.after(() => mounts.unmount(reader, signal));

  await mounts.mount(request, signal);
  for (let i = 0; i < 2; i++) await mounts.protect(reader, signal); // repeated

  await writeFile(join(target, 'file'), 'seen');
  assert.equal(await readFile(join(reader, 'file'), 'utf8'), 'seen');
  await assert.rejects(writeFile(join(reader, 'other'), ''), { code: 'EROFS' });
});

test('a filesystem that vanished is not created again', native, async (t) => {
  const { pool, volume } = await newVolume(t);
  await formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal);
  await sh(`dd if=/dev/zero of=${volume.devicePath} bs=1M count=4 conv=fsync status=none`);
  assert.deepEqual(await probe(volume.devicePath, signal), { kind: 'empty' });
  await assert.rejects(formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal), { name: 'FilesystemVanished' });
});

/** Makes a complete filesystem look as if its mkfs had been killed just before the end. */
const cutShort: Readonly<Record<string, (device: string) => string>> = {
  ext4: (device) => `dd if=/dev/zero of=${device} bs=1024 seek=1 count=1 conv=notrunc,fsync status=none`,
  xfs: (device) => `xfs_db -x -c 'sb 0' -c 'write inprogress 1' ${device}`,
  btrfs: (device) => `printf '!' | dd of=${device} bs=1 seek=${65_536 + 64} conv=notrunc,fsync status=none`,
};

for (const filesystem of filesystems) {
  test(`${filesystem.name}: an interrupted format is repeated, on small volumes too`, native, async (t) => {
    const { pool, volume, mount } = await newVolume(t);
    await formatter.ensure(pool, volumeOf(pool, 'data'), filesystem, signal);
    await sh(cutShort[filesystem.name]?.(volume.devicePath) ?? 'false');
    // The tag is set after the format, so a volume without it looks like an interrupted one.
    const untagged = { ...volume, tags: [createdTag] };
    await formatter.ensure(pool, untagged, filesystem, signal);
    await mount(filesystem);
  });
}

test('another filesystem, swap or unknown data is never overwritten', native, async (t) => {
  const { pool, volume } = await newVolume(t);
  const device = volume.devicePath;
  const checksum = () => sh(`head -c 8M ${device} | md5sum`);
  const cases = [
    { content: `mkfs.xfs -q -K ${device}`, refusal: 'FilesystemForeign' },
    { content: `wipefs -aq ${device}; mkswap -q ${device}`, refusal: 'FilesystemForeign' },
    {
      content: `wipefs -aq ${device}; printf precious | dd of=${device} conv=fsync status=none`,
      refusal: 'DeviceUnreadable',
    },
  ];
  for (const { content, refusal } of cases) {
    await sh(content);
    const before = await checksum();
    await assert.rejects(formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal), { name: refusal }, content);
    assert.equal(await checksum(), before);
  }
});

test('mkfs itself rejects a device with contents that the probe would find', native, async (t) => {
  const { pool, volume } = await newVolume(t);
  await sh(`mkfs.ext4 -q ${volume.devicePath}`);
  const blind = new Formatter({ run, probe: async () => ({ kind: 'empty' }), superblock: superblockReader() });
  for (const filesystem of [xfs, btrfs]) {
    await assert.rejects(blind.ensure(pool, volumeOf(pool, 'data'), filesystem, signal), {
      name: 'FilesystemNotCreated',
    });
  }
});

test('a target with another device mounted is not mounted over', native, async (t) => {
  const { target, pool, mount } = await newVolume(t);
  await formatter.ensure(pool, volumeOf(pool, 'data'), ext4, signal);
  await sh(`mount -t tmpfs other '${target}'`);
  await assert.rejects(mount(ext4), { name: 'MountConflict', message: /other is already mounted there/ });
});

test('unmounting removes all stacked mounts, and succeeds for a missing path', native, async (t) => {
  const { directory, target } = await newVolume(t);
  await sh(`mount -t tmpfs one '${target}'; mount -t tmpfs two '${target}'`);
  assert.equal((await mounts.at(target))?.source, 'two');
  await mounts.unmount(target, signal);
  assert.equal(await mounts.at(target), undefined);
  await mounts.unmount(target, signal);
  await mounts.unmount(join(directory, 'no/such/target'), signal);
  assert.ok((await stat(target)).isDirectory());
});

test('unmounting a busy target fails and leaves it mounted', native, async (t) => {
  const { target } = await newVolume(t);
  await sh(`mount -t tmpfs one '${target}'`);
  await using _holder = await open(join(target, 'file'), 'w');
  await assert.rejects(mounts.unmount(target, signal), { name: 'CommandFailed', message: /busy/ });
  assert.ok(await mounts.at(target));
});

test('a path through a symbolic link refers to the mount at its destination', native, async (t) => {
  const { directory, target } = await newVolume(t);
  await sh(`mount -t tmpfs one '${target}'`);
  await symlink(directory, join(directory, 'link'));
  assert.equal((await mounts.at(join(directory, 'link', 'a target')))?.source, 'one');
  await mounts.unmount(join(directory, 'link', 'a target'), signal);
  assert.equal(await mounts.at(target), undefined);
});

test('a device is all zero only if every byte was read and is zero', native, async (t) => {
  const { directory, pool } = await newVolume(t);
  const { devicePath, sizeBytes } = await pool.create({ id: 'small', sizeBytes: 8n * 1024n ** 2n, tags: [] }, signal);
  assert.deepEqual(await allZero(run)(devicePath, signal), { kind: 'zero' });
  await sh(`printf x | dd of=${devicePath} bs=1 seek=${sizeBytes - 1n} conv=fsync status=none`);
  assert.deepEqual(await allZero(run)(devicePath, signal), { kind: 'data' });
  assert.equal((await probe(devicePath, signal)).kind, 'empty'); // which knows only signatures
  assert.equal((await allZero(run)('/dev/no-such-device', signal)).kind, 'unknown');
  await assert.rejects(allZero(run)(devicePath, AbortSignal.abort()), { name: 'CommandCancelled' });

  const image = join(directory, 'large');
  const [first, rest] = [4n * 1024n ** 3n, 8n * 1024n ** 2n];
  await sh(`truncate --size=${first + rest} ${image}`);
  await sh(`printf x | dd of=${image} bs=1 seek=${first + rest - 1n} conv=notrunc status=none`);
  const large = await sh(`losetup --find --show ${image}`);
  const ranges: string[] = [];
  const onlyTheEnd: Run = async (command, options) => {
    ranges.push(command.slice(1, 3).join(' '));
    return command.includes('--ignore-initial=0:0') ? { stdout: '', stderr: '' } : run(command, options);
  };
  assert.deepEqual(await allZero(onlyTheEnd)(large, signal), { kind: 'data' });
  assert.deepEqual(ranges, [`--ignore-initial=0:0 --bytes=${first}`, `--ignore-initial=${first}:0 --bytes=${rest}`]);
});

test('a directory is bind-mounted once, read-only if requested, even after a crash in between', native, async (t) => {
  const { directory, target } = await newVolume(t);
  const source = join(directory, 'source');
  await mkdir(source);
  await writeFile(join(source, 'file'), 'seen');
  await mounts.bind({ source, target, readOnly: false }, signal);
  assert.equal(await readFile(join(target, 'file'), 'utf8'), 'seen');
  await mounts.bind({ source, target, readOnly: true }, signal); // as if only the first of the two steps had been done
  await mounts.bind({ source, target, readOnly: true }, signal);
  await assert.rejects(writeFile(join(target, 'new'), ''), { code: 'EROFS' });
  await writeFile(join(source, 'new'), ''); // the source itself is not read-only
  await assert.rejects(mounts.bind({ source: directory, target, readOnly: false }, signal), { name: 'MountConflict' });
  await mounts.unmount(target, signal);
  assert.equal(await mounts.at(target), undefined);
});

test('a block device is bind-mounted on a file', native, async (t) => {
  const { directory, volume } = await newVolume(t);
  const target = join(directory, 'block');
  await writeFile(target, '');
  for (let i = 0; i < 2; i++) await mounts.bind({ source: volume.devicePath, target, readOnly: false }, signal);
  assert.ok((await stat(target)).isBlockDevice());
  await mounts.unmount(target, signal);
  assert.ok((await stat(target)).isFile());
});
