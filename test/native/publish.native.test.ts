import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { exists } from '../../src/base/exists.ts';
import { btrfs } from '../../src/filesystem/btrfs.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { filesystems } from '../../src/filesystem/filesystem.ts';
import { xfs } from '../../src/filesystem/xfs.ts';
import { mebibyte, mounted, mounts, node, signal, sizeBytes, totalBytes } from './node-of-test.ts';
import { sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };

for (const filesystem of filesystems) {
  test(`${filesystem.name}: a volume is published for two pods in turn, with few processes`, native, async (t) => {
    const { data, pool, start, stagingPath, targetPath, publication, ran } = await node(t);
    const use = mounted(filesystem, {}, ['noatime']);
    const volumes = start();
    await volumes.stage({ volumeId: data, stagingPath, use }, signal);
    await volumes.publish(publication(use), signal);
    assert.deepEqual(ran(), ['sh', `mkfs.${filesystem.name}`, 'mount', 'mount']);
    assert.equal((await stat(targetPath)).mode & 0o7777, 0o2777);
    assert.ok((await mounts.at(targetPath))?.options.includes('noatime'));
    await writeFile(join(targetPath, 'file'), Buffer.alloc(4 * 1024 ** 2, 1));
    await chmod(targetPath, 0o700);
    await sh(`sync -f '${targetPath}'`);

    const { usage, condition } = await volumes.stats(data, targetPath, signal);
    assert.equal(condition.isAbnormal, false);
    const [bytes, inodes] = usage;
    assert.ok(bytes?.filling && bytes.total > sizeBytes / 2n && bytes.total <= sizeBytes);
    assert.ok(bytes.filling.used >= 4n * mebibyte && bytes.filling.available < bytes.total - bytes.filling.used + 1n);
    assert.equal(inodes?.unit, filesystem === btrfs ? undefined : 'inodes');
    assert.deepEqual(ran(), [], 'volume stats start no process');

    await volumes.unpublish(data, targetPath, signal);
    assert.equal(await exists(targetPath), false);
    await volumes.unstage(data, stagingPath, signal);
    assert.deepEqual(ran(), ['umount', 'umount']);

    await start().stage({ volumeId: data, stagingPath, use }, signal);
    await start().publish(publication(use), signal);
    assert.deepEqual(ran(), ['mount', 'mount'], 'our own filesystem is recognised without a process');
    assert.equal((await readFile(join(targetPath, 'file'))).length, 4 * 1024 ** 2);
    assert.equal((await stat(targetPath)).mode & 0o7777, 0o700, 'the mode that the user set');
    assert.equal(pool.get(data)?.tags.at(-1), `moorage.dev/filesystem=${filesystem.name}`);
  });
}

test('a file volume that was never used can be retired, and not one that was used', native, async (t) => {
  const { pool, start, stagingPath } = await node(t);
  const [unused, used] = [`unused-${randomUUID()}`, `used-${randomUUID()}`];
  for (const id of [unused, used]) await pool.create({ id, sizeBytes, tags: ['moorage.dev/volume=pvc-1'] }, signal);
  const use = mounted(ext4);
  await start().stage({ volumeId: used, stagingPath, use }, signal);
  await start().unstage(used, stagingPath, signal);
  assert.equal(await start().retireIfUnused(used, signal), false);
  assert.equal(await start().retireIfUnused(unused, signal), true);
  await assert.rejects(start().stage({ volumeId: unused, stagingPath, use }, signal), { name: 'VolumeRetired' });
});

test('a new filesystem follows its class, and an existing one is not changed', native, async (t) => {
  const { data, pool, start, stagingPath } = await node(t);
  const device = pool.get(data)?.devicePath ?? '';
  const owned = { rootMode: 0o750, rootOwner: { uid: 1234, gid: 5678 } };
  const use = mounted(ext4, { ...owned, mkfsOptions: ['-i', '65536', '-L', 'ours', '-E', 'stride=16'] });
  await start().stage({ volumeId: data, stagingPath, use }, signal);
  const { mode, uid, gid } = await stat(stagingPath);
  assert.deepEqual([mode & 0o7777, uid, gid], [0o750, 1234, 5678]);
  const facts = await sh(`dumpe2fs -h ${device} 2>/dev/null`);
  assert.match(facts, /volume name: +ours\n/);
  assert.match(facts, /RAID stride: +16\n/);
  assert.match(facts, /Inode count: +51\d\d\n/);

  await start().stage({ volumeId: data, stagingPath, use: mounted(ext4, { rootMode: 0o777 }) }, signal);
  assert.equal((await stat(stagingPath)).uid, 1234);
});

test('a retry completes a first publish after a crash between any two steps', native, async (t) => {
  let commandsLeft = Number.POSITIVE_INFINITY;
  const before = () => {
    if (commandsLeft-- <= 0) throw new Error('crash');
  };
  const { data, start, stagingPath, targetPath, publication, pool, ran } = await node(t, { before });
  const use = mounted(xfs, { rootOwner: { uid: 7, gid: 7 } });
  const attempt = async () => {
    await start().stage({ volumeId: data, stagingPath, use }, signal);
    await start().publish(publication(use), signal);
  };
  const crashAfter = async (...commands: string[]) => {
    commandsLeft = commands.length;
    await assert.rejects(attempt(), /crash/);
    assert.deepEqual(ran().slice(0, commands.length), commands);
    commandsLeft = Number.POSITIVE_INFINITY;
  };
  await crashAfter();
  await crashAfter('sh');
  t.mock.method(pool, 'addTags', () => Promise.reject(new Error('crash')), { times: 1 });
  await crashAfter('sh', 'mkfs.xfs');
  await crashAfter('sh'); // the disk shows that we created it
  await crashAfter('mount');
  await attempt();
  assert.deepEqual(ran(), ['mount']);
  const { mode, uid } = await stat(targetPath);
  assert.deepEqual([mode & 0o7777, uid], [0o2777, 7]);
  assert.equal(pool.get(data)?.tags.filter((tag) => tag.includes('filesystem')).length, 1);
});

test('the kubelet may call in any order', native, async (t) => {
  const { data, directory, start, stagingPath, targetPath, publication } = await node(t);
  const use = mounted(ext4);
  const staging = { volumeId: data, stagingPath, use };
  const volumes = start();

  await volumes.unpublish(data, targetPath, signal); // before anything else
  await volumes.unstage(data, stagingPath, signal);
  await volumes.publish(publication(use), signal); // before it was staged
  await writeFile(join(targetPath, 'file'), 'kept');
  await volumes.publish(publication(use), signal); // twice
  await volumes.stage(staging, signal);
  assert.equal((await sh(`grep -c '${directory}' /proc/self/mountinfo`)).trim(), '2', 'nothing is stacked');

  const elsewhere = join(directory, 'other place');
  await volumes.stage({ ...staging, stagingPath: elsewhere }, signal); // while it is staged
  assert.equal(await readFile(join(elsewhere, 'file'), 'utf8'), 'kept');
  await volumes.unstage(data, elsewhere, signal);

  await volumes.unstage(data, stagingPath, signal); // while it is published
  await rm(stagingPath, { recursive: true });
  assert.equal(await readFile(join(targetPath, 'file'), 'utf8'), 'kept');
  await start().publish(publication(use), signal);
  await volumes.unpublish(data, targetPath, signal);
  await volumes.unpublish(data, targetPath, signal);
  await volumes.unstage(data, stagingPath, signal);
  await volumes.unstage(data, stagingPath, signal);

  await mkdir(targetPath, { recursive: true }); // left by a crash
  await volumes.publish(publication(use), signal);
  assert.equal(await readFile(join(targetPath, 'file'), 'utf8'), 'kept');
});

test('a volume that TopoLVM mounted for a pod is measured, grown and unpublished', native, async (t) => {
  const { data, pool, start, stagingPath, targetPath, publication, growth } = await node(t);
  const { devicePath } = pool.get(data) ?? {};
  await sh(`mkfs.xfs -q -f -K -m uuid=${randomUUID()} ${devicePath}`);
  await pool.addTags(data, ['moorage.dev/filesystem=xfs'], signal); // whoever created it
  await mkdir(targetPath, { recursive: true });
  await sh(`mount -t xfs -o nouuid ${devicePath} '${targetPath}'`);
  await writeFile(join(targetPath, 'file'), 'theirs');
  const volumes = start();

  assert.equal((await volumes.stats(data, targetPath, signal)).condition.isAbnormal, false);
  await pool.grow(data, 2n * sizeBytes, signal);
  await volumes.grow(growth, signal);
  assert.ok((await totalBytes(targetPath)) > (3n * sizeBytes) / 2n);
  const second = { ...publication(mounted(xfs)), targetPath: `${targetPath}2` };
  await volumes.publish(second, signal); // another pod, the new way
  assert.equal(await readFile(join(second.targetPath, 'file'), 'utf8'), 'theirs');
  await volumes.unpublish(data, targetPath, signal);
  assert.equal(await exists(targetPath), false);
  await volumes.unpublish(data, second.targetPath, signal);
  await volumes.unstage(data, stagingPath, signal);
});

test('volume stats of a path without the volume are rejected', native, async (t) => {
  const { data, directory, start, stagingPath } = await node(t);
  const volumes = start();
  for (const path of [directory, stagingPath, join(directory, 'no/such')]) {
    await assert.rejects(volumes.stats(data, path, signal), { code: 'NotFound' });
  }
});
