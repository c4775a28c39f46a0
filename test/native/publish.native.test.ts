import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { access, chmod, mkdir, open, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/log.ts';
import type { PreparedUse, Publication } from '../../src/csi/node-volumes.ts';
import type { FilesystemSettings } from '../../src/csi/volume-context.ts';
import { EphemeralVolumes } from '../../src/node/ephemeral-volumes.ts';
import { publishing } from '../../src/node/publishing.ts';
import { type Filesystem, filesystems } from '../../src/storage/filesystem.ts';
import { Mounts } from '../../src/storage/mounts.ts';
import { Pools } from '../../src/storage/pools.ts';
import { superblockReader } from '../../src/storage/superblock.ts';
import { openFilePool, scratchDirectory, scratchFilesystem, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
/** The kernel grows an ext4 that is mounted only for those who may go beyond limits, which root in a container may not. */
const whyNoGrowth = (filesystem: Filesystem) =>
  whyNotRoot || (filesystem === 'ext4' && !mayExceedLimits() && 'needs CAP_SYS_RESOURCE; test/lvm has the same');
const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;
const sizeBytes = 320n * mebibyte;
const mounts = new Mounts({ run });
const block: PreparedUse = { kind: 'block' };

function mounted(filesystem: Filesystem, settings: Partial<FilesystemSettings> = {}, mountFlags: string[] = []) {
  const plain = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
  return { kind: 'filesystem', filesystem, mountFlags, settings: { ...plain, ...settings } } as const;
}

interface NodeOfTest {
  /** Where all of it is; a filesystem that can share blocks makes copies possible. */
  readonly directory?: string;
  /** May fail, as a crash or a slow disk would have it. */
  readonly before?: (command: readonly string[]) => void;
}

/** A node with one new volume in a file pool, and the programs that it has run. */
async function node(t: TestContext, { directory: given, before }: NodeOfTest = {}) {
  const directory = given ?? (await scratchDirectory(t));
  const path = join(directory, 'pool');
  await mkdir(path);
  const pool = await openFilePool(path);
  const data = `data-${randomUUID()}`; // mkfs.btrfs looks at all devices of the machine for one that has its UUID
  await pool.create({ id: data, sizeBytes, tags: [] }, signal);
  const programs: string[] = [];
  const counted: Run = (command, options) => {
    programs.push(command[0]);
    before?.(command);
    return run(command, options);
  };
  const pools = new Pools([pool], 'files');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  /** As after a restart: nothing is remembered but what the kernel and the disk have. */
  const start = () => publishing({ pools, ephemeral, run: counted });
  const stagingPath = join(directory, 'staged here');
  const targetPath = join(directory, 'pods', 'a pod', 'mount');
  const publication = (use: PreparedUse): Publication => ({
    volumeId: data,
    targetPath,
    stagingPath,
    readOnly: false,
    exclusive: false,
    use,
    ephemeral: undefined,
  });
  const expansion = { volumeId: data, volumePath: targetPath, stagingPath, isBlock: undefined };
  const ran = () => programs.splice(0);
  return { data, directory, pool, ephemeral, start, stagingPath, targetPath, publication, expansion, ran };
}

async function totalBytes(path: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
}

function mayExceedLimits(): boolean {
  const [, bits = '0'] = /^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return ((BigInt(`0x${bits}`) >> 24n) & 1n) === 1n;
}

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

for (const filesystem of filesystems) {
  test(`${filesystem}: from the first pod to the next, with few processes`, native, async (t) => {
    const { data, pool, start, stagingPath, targetPath, publication, ran } = await node(t);
    const use = mounted(filesystem, {}, ['noatime']);
    const volumes = start();
    await volumes.stage({ volumeId: data, stagingPath, use }, signal);
    await volumes.publish(publication(use), signal);
    assert.deepEqual(ran(), ['blkid', `mkfs.${filesystem}`, 'mount', 'mount']);
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
    assert.equal(inodes?.unit, filesystem === 'btrfs' ? undefined : 'inodes');
    assert.deepEqual(ran(), [], 'figures fork nothing');

    await volumes.unpublish(data, targetPath, signal);
    assert.equal(await isThere(targetPath), false);
    await volumes.unstage(data, stagingPath, signal);
    assert.deepEqual(ran(), ['umount', 'umount']);

    await start().stage({ volumeId: data, stagingPath, use }, signal);
    await start().publish(publication(use), signal);
    assert.deepEqual(ran(), ['mount', 'mount'], 'what we made is known again without a process');
    assert.equal((await readFile(join(targetPath, 'file'))).length, 4 * 1024 ** 2);
    assert.equal((await stat(targetPath)).mode & 0o7777, 0o700, 'the mode that somebody chose');
    assert.equal(pool.get(data)?.tags.at(-1), `moorage.dev/filesystem=${filesystem}`);
  });

  test(`${filesystem}: grows while it is written to, and when it was grown before it was mounted`, {
    skip: whyNoGrowth(filesystem),
  }, async (t) => {
    const { data, pool, start, stagingPath, targetPath, publication, expansion, ran } = await node(t);
    const use = mounted(filesystem);
    const volumes = start();
    const staging = { volumeId: data, stagingPath, use };
    await volumes.stage(staging, signal);
    await volumes.publish({ ...publication(use), readOnly: true }, signal);
    const before = await totalBytes(targetPath);
    {
      await using file = await open(join(stagingPath, 'file'), 'w');
      await file.write('before ');
      await pool.grow(data, 2n * sizeBytes, signal);
      ran();
      assert.equal(await volumes.expand(expansion, signal), 2n * sizeBytes, 'also where this pod may only read');
      assert.equal(ran().length, 1);
      await file.write('after');
    }
    const online = await totalBytes(targetPath);
    assert.ok(online - before > sizeBytes / 2n, `${before} became ${online}`);
    assert.equal(await readFile(join(targetPath, 'file'), 'utf8'), 'before after');
    await volumes.expand(expansion, signal); // repeated

    await volumes.unpublish(data, targetPath, signal);
    await volumes.unstage(data, stagingPath, signal);
    await pool.grow(data, 3n * sizeBytes, signal);
    ran();
    await volumes.stage(staging, signal);
    assert.equal(ran().length, 2, 'mount and growth');
    assert.ok((await totalBytes(stagingPath)) - online > sizeBytes / 2n);
    await volumes.unstage(data, stagingPath, signal);
    const { devicePath = '' } = pool.get(data) ?? {};
    assert.equal((await superblockReader()(devicePath, filesystem, signal))?.sizeBytes, 3n * sizeBytes);
    ran();
    await volumes.stage(staging, signal);
    assert.deepEqual(ran(), ['mount'], 'nothing is left to grow');
  });

  test(`${filesystem}: a copy can be larger than its source, or only be read, while the source is in use`, {
    skip: whyNoGrowth(filesystem),
  }, async (t) => {
    const onXfs = await scratchFilesystem(t, 'xfs', 2048);
    const { data, directory, pool, start, stagingPath } = await node(t, { directory: onXfs });
    const use = mounted(filesystem);
    const volumes = start();
    await volumes.stage({ volumeId: data, stagingPath, use }, signal);
    await writeFile(join(stagingPath, 'file'), 'copied');
    await using _writer = await open(join(stagingPath, 'open'), 'w'); // its journal is not empty

    await pool.snapshot(data, { id: 'large', tags: [], sizeBytes: 2n * sizeBytes, access: 'rw' }, signal);
    await pool.snapshot(data, { id: 'frozen', tags: [], access: 'ro' }, signal);
    for (const [volumeId, options] of [
      ['large', []],
      ['frozen', ['ro']],
    ] as const) {
      const at = join(directory, volumeId);
      await volumes.stage({ volumeId, stagingPath: at, use }, signal);
      await volumes.stage({ volumeId, stagingPath: at, use }, signal); // repeated
      assert.equal(await readFile(join(at, 'file'), 'utf8'), 'copied');
      const present = (await mounts.at(at))?.options ?? [];
      assert.ok(options.every((option) => present.includes(option)));
    }
    assert.ok((await totalBytes(join(directory, 'large'))) > (sizeBytes * 3n) / 2n);
    await assert.rejects(writeFile(join(directory, 'frozen', 'file'), ''), { code: 'EROFS' });
  });
}

test('a new filesystem is made as its class says, and an old one left as it is', native, async (t) => {
  const { data, pool, start, stagingPath } = await node(t);
  const device = pool.get(data)?.devicePath ?? '';
  const owned = { rootMode: 0o750, rootOwner: { uid: 1234, gid: 5678 } };
  const use = mounted('ext4', { ...owned, mkfsOptions: ['-i', '65536', '-L', 'ours', '-E', 'stride=16'] });
  await start().stage({ volumeId: data, stagingPath, use }, signal);
  const { mode, uid, gid } = await stat(stagingPath);
  assert.deepEqual([mode & 0o7777, uid, gid], [0o750, 1234, 5678]);
  const facts = await sh(`dumpe2fs -h ${device} 2>/dev/null`);
  assert.match(facts, /volume name: +ours\n/);
  assert.match(facts, /RAID stride: +16\n/);
  assert.match(facts, /Inode count: +51\d\d\n/);

  await start().stage({ volumeId: data, stagingPath, use: mounted('ext4', { rootMode: 0o777 }) }, signal);
  assert.equal((await stat(stagingPath)).uid, 1234);
});

test('a crash between any two steps of a first publish is made good', native, async (t) => {
  let commandsLeft = Number.POSITIVE_INFINITY;
  const before = () => {
    if (commandsLeft-- <= 0) throw new Error('crash');
  };
  const { data, start, stagingPath, targetPath, publication, pool, ran } = await node(t, { before });
  const use = mounted('xfs', { rootOwner: { uid: 7, gid: 7 } });
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
  await crashAfter('blkid');
  t.mock.method(pool, 'addTags', () => Promise.reject(new Error('crash')), { times: 1 });
  await crashAfter('blkid', 'mkfs.xfs');
  await crashAfter('blkid'); // knows what it made, and says so on the disk
  await crashAfter('mount');
  await attempt();
  assert.deepEqual(ran(), ['mount']);
  const { mode, uid } = await stat(targetPath);
  assert.deepEqual([mode & 0o7777, uid], [0o2777, 7]);
  assert.equal(pool.get(data)?.tags.filter((tag) => tag.includes('filesystem')).length, 1);
});

test('every order in which the kubelet may call ends well', native, async (t) => {
  const { data, directory, start, stagingPath, targetPath, publication } = await node(t);
  const use = mounted('ext4');
  const staging = { volumeId: data, stagingPath, use };
  const volumes = start();

  await volumes.unpublish(data, targetPath, signal); // before anything was
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

test('what TopoLVM has mounted for a pod is measured, grown and unpublished', native, async (t) => {
  const { data, pool, start, stagingPath, targetPath, publication, expansion } = await node(t);
  const { devicePath } = pool.get(data) ?? {};
  await sh(`mkfs.xfs -q -f -K -m uuid=${randomUUID()} ${devicePath}`);
  await pool.addTags(data, ['moorage.dev/filesystem=xfs'], signal); // whoever made it
  await mkdir(targetPath, { recursive: true });
  await sh(`mount -t xfs -o nouuid ${devicePath} '${targetPath}'`);
  await writeFile(join(targetPath, 'file'), 'theirs');
  const volumes = start();

  assert.equal((await volumes.stats(data, targetPath, signal)).condition.isAbnormal, false);
  await pool.grow(data, 2n * sizeBytes, signal);
  await volumes.expand(expansion, signal);
  assert.ok((await totalBytes(targetPath)) > (3n * sizeBytes) / 2n);
  const second = { ...publication(mounted('xfs')), targetPath: `${targetPath}2` };
  await volumes.publish(second, signal); // another pod, the new way
  assert.equal(await readFile(join(second.targetPath, 'file'), 'utf8'), 'theirs');
  await volumes.unpublish(data, targetPath, signal);
  assert.equal(await isThere(targetPath), false);
  await volumes.unpublish(data, second.targetPath, signal);
  await volumes.unstage(data, stagingPath, signal);
});

test('a pod that may only read cannot write, beside one that can', native, async (t) => {
  const { data, start, targetPath, publication } = await node(t);
  const volumes = start();
  const use = mounted('ext4');
  await volumes.publish(publication(use), signal);
  const reading = { ...publication(use), targetPath: `${targetPath}2`, readOnly: true };
  for (let i = 0; i < 2; i++) await volumes.publish(reading, signal);
  await writeFile(join(targetPath, 'file'), 'seen');
  assert.equal(await readFile(join(reading.targetPath, 'file'), 'utf8'), 'seen');
  await assert.rejects(writeFile(join(reading.targetPath, 'file'), ''), { code: 'EROFS' });
  await assert.rejects(volumes.publish({ ...reading, readOnly: false }, signal), { code: 'AlreadyExists' });
  const flagged = mounted('ext4', {}, ['ro']);
  await volumes.unpublish(data, targetPath, signal);
  await assert.rejects(volumes.publish({ ...publication(mounted('xfs')), targetPath }, signal), {
    name: 'FilesystemMismatch',
  });
  await volumes.publish(publication(flagged), signal);
});

test('a class that mounts read-only can be published again and again', native, async (t) => {
  const { data, start, targetPath, stagingPath, publication, expansion } = await node(t);
  const use = mounted('ext4', {}, ['ro,noatime']);
  for (let i = 0; i < 2; i++) {
    await start().stage({ volumeId: data, stagingPath, use }, signal);
    await start().publish(publication(use), signal);
  }
  await assert.rejects(writeFile(join(targetPath, 'file'), ''), { code: 'EROFS' });
  await assert.rejects(start().expand(expansion, signal), { name: 'CannotGrowReadOnly' });
});

test('a raw volume is its device at the path, as large as it has grown', native, async (t) => {
  const { data, pool, start, stagingPath, targetPath, publication, expansion, ran } = await node(t);
  const volumes = start();
  await volumes.stage({ volumeId: data, stagingPath, use: block }, signal);
  for (let i = 0; i < 2; i++) await volumes.publish(publication(block), signal);
  assert.deepEqual(ran(), ['mount']);
  await sh(`printf raw | dd of='${targetPath}' conv=notrunc,fsync status=none`);
  assert.equal(await sh(`head -c 3 ${pool.get(data)?.devicePath}`), 'raw');
  await pool.grow(data, 2n * sizeBytes, signal);
  assert.equal(await volumes.expand(expansion, signal), 2n * sizeBytes);
  assert.deepEqual((await volumes.stats(data, targetPath, signal)).usage, [{ unit: 'bytes', total: 2n * sizeBytes }]);
  ran();
  await volumes.unpublish(data, targetPath, signal);
  assert.deepEqual(ran(), ['umount']);
  assert.equal(await isThere(targetPath), false);
  await volumes.unstage(data, stagingPath, signal);
  const refused = volumes.publish(publication(mounted('ext4')), signal);
  await assert.rejects(refused, { name: 'DeviceUnreadable' }, 'what was written raw is never formatted');
});

test('figures of a place where the volume is not are not told', native, async (t) => {
  const { data, directory, start, stagingPath } = await node(t);
  const volumes = start();
  for (const path of [directory, stagingPath, join(directory, 'no/such')]) {
    await assert.rejects(volumes.stats(data, path, signal), { code: 'NotFound' });
  }
});

test('an inline ephemeral volume comes with its pod and goes with it', native, async (t) => {
  const { data, directory, pool, ephemeral, start, targetPath, publication } = await node(t);
  const use = mounted('ext4');
  const inline: Publication = {
    ...publication(use),
    volumeId: `csi-${'0123456789abcdef'.repeat(4)}`,
    stagingPath: undefined,
    ephemeral: { sizeBytes: 64n * mebibyte, deviceClass: '', podUid: 'gone' },
  };
  const volumes = start();
  for (let i = 0; i < 2; i++) await volumes.publish(inline, signal);
  await writeFile(join(targetPath, 'file'), 'scratch');

  await ephemeral.removeLeftovers(directory, signal); // its pod seems gone, but it is mounted
  assert.equal(await readFile(join(targetPath, 'file'), 'utf8'), 'scratch');
  for (let i = 0; i < 2; i++) await volumes.unpublish(inline.volumeId, targetPath, signal);
  assert.equal(pool.get(inline.volumeId), undefined);

  await volumes.publish(inline, signal);
  await mounts.unmount(targetPath, signal); // the machine went down
  await ephemeral.removeLeftovers(directory, signal);
  assert.equal(pool.get(inline.volumeId), undefined);
  assert.ok(pool.get(data));
  await volumes.unpublish(inline.volumeId, targetPath, signal);
});
