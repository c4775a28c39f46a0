import assert from 'node:assert/strict';
import { lstat, mkdir, readdir, readFile, stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { exists } from '../../src/base/exists.ts';
import { mountPointOf } from '../../src/node/local-pv/volume-path.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { foundOnDevice } from '../../worlds/lvm/found-on-device.ts';
import { command, disks } from '../../worlds/lvm/inside.ts';
import { Killer, localPvNode, prefix } from './local-pv-node.ts';
import { isOnDisk, secret } from './secrets.ts';

/** All volumes of these tests are within. */
const gibibyte = 1024 ** 3;

type Node = Awaited<ReturnType<typeof localPvNode>>;
type Annotations = Readonly<Record<string, string>>;

const status = `${prefix}status`;
const isProcessed = (annotations: Annotations) => annotations[status] === 'Processed';
const isFailed = (annotations: Annotations) => annotations[status] === 'Not-Processed-Errors';
const isRemoved = (annotations: Annotations) => annotations['moorage.dev/removed'] === 'true';
const messageOf = (annotations: Annotations) => annotations['moorage.dev/message'] ?? '';

const sizeOf = async ({ vg }: Node, name: string) =>
  Number(await command('lvs', '--noheadings', '--nosuffix', '--units', 'b', '-o', 'lv_size', `${vg}/${name}`));
const volumesIn = ({ vg }: Node) => command('sh', '-c', `lvs --noheadings -o lv_name ${vg} | xargs`);
const tableOf = (path: string) => command('findmnt', '--noheadings', '--raw', '--output', 'FSTYPE,OPTIONS', path);
const checksum = async (device: string) => (await command('sh', '-c', `md5sum < ${device}`)).split(' ')[0];

/** Everything of the volume is where it belongs, and nothing twice. */
async function isWhole({ vg, pathOf }: Node, name: string): Promise<void> {
  assert.ok((await lstat(pathOf(name))).isSymbolicLink());
  const mounts = await command('sh', '-c', `grep -c ' ${mountPointOf(name)} ' /proc/self/mountinfo`);
  assert.equal(mounts, '1');
  assert.equal((await stat(pathOf(name))).dev, (await stat(mountPointOf(name))).dev);
  assert.match(await command('lvs', '--noheadings', '-o', 'lv_tags', `${vg}/${name}`), /moorage.dev\/local-pv-uid=/);
}

test('static volumes on a real volume group', async (t) => {
  const node = await localPvNode(t);
  const { vg, create, change, until, pathOf, secrets } = node;

  await t.test('each filesystem is created with its options, exactly as large as requested', async () => {
    const rows = [
      ['ext4', '100M', 100_663_296, { [`${prefix}fsOpts`]: '-i 8192', [`${prefix}mountOpts`]: 'noexec,noatime' }],
      ['xfs', '314572800', 314_572_800, { [`${prefix}mountOpts`]: '' }],
      ['btrfs', '128Mi', 134_217_728, { 'moorage.dev/device-class': 'thin' }],
    ] as const;
    for (const [fsType, size, bytes, annotations] of rows) {
      await create(fsType, size, { [`${prefix}fsType`]: fsType, ...annotations });
      const answer = await until(fsType, isProcessed);
      await isWhole(node, fsType);
      assert.equal(await sizeOf(node, fsType), bytes, 'rounded up to whole extents');
      assert.equal(answer[`${prefix}size`], `${bytes / 1024 ** 2}Mi`);
      const [type, options = ''] = (await tableOf(pathOf(fsType))).split(' ');
      assert.equal(type, fsType);
      assert.equal(options.includes('noexec'), fsType !== 'xfs');
    }
    assert.match(await tableOf(pathOf('ext4')), /noatime/);
    const { files, blocks, bsize } = await statfs(pathOf('ext4'));
    assert.ok(files > (blocks * bsize) / 16_384, 'one inode per 8 KiB');
    const { mode, uid } = await stat(pathOf('ext4'));
    assert.deepEqual([mode & 0o7777, uid], [0o755, 0]);
  });

  await t.test('a raised capacity grows the filesystem while it is in use', async () => {
    const before = await statfs(pathOf('ext4'));
    await change('ext4', { spec: { capacity: { storage: '150Mi' } } });
    await until('ext4', (annotations) => annotations[`${prefix}size`] === '152Mi');
    assert.equal(await sizeOf(node, 'ext4'), 152 * 1024 ** 2);
    const { blocks } = await statfs(pathOf('ext4'));
    assert.ok(blocks > 1.4 * before.blocks);
  });

  await t.test('after a reboot the path dangles, and the agent mounts the volume again with its data', async () => {
    await writeFile(join(pathOf('xfs'), 'file'), 'kept');
    await node.stop();
    await command('umount', mountPointOf('xfs'));
    await command('rmdir', mountPointOf('xfs')); // as on a new tmpfs
    assert.equal(await exists(pathOf('xfs')), false, 'no pod can start');
    node.commands.length = 0;
    await node.restart();
    await eventually('it is mounted', () => exists(join(pathOf('xfs'), 'file')));
    assert.equal(await readFile(join(pathOf('xfs'), 'file'), 'utf8'), 'kept');
    assert.deepEqual(node.commands, ['mount'], 'the others are mounted already');
  });

  await t.test('an existing volume with data is refused and stays as it is', async () => {
    await command('lvcreate', '--yes', '--name', 'foreign', '--size', '64m', vg);
    await command('mkfs.xfs', '-q', '-f', '-b', 'size=1024', `/dev/${vg}/foreign`).catch(() =>
      command('mkfs.ext4', '-q', `/dev/${vg}/foreign`),
    );
    const before = await checksum(`/dev/${vg}/foreign`);
    await create('foreign', '64Mi');
    assert.match(messageOf(await until('foreign', isFailed)), /^the existing volume foreign is not used: it holds /);
    await node.delete('foreign');
    await until('foreign', isRemoved);
    assert.equal(await checksum(`/dev/${vg}/foreign`), before);

    await command('lvcreate', '--yes', '--name', 'stray', '--size', '64m', vg);
    await command('sh', '-c', `printf x | dd of=/dev/${vg}/stray bs=1M seek=40 conv=fsync status=none`);
    await create('stray', '64Mi');
    assert.match(messageOf(await until('stray', isFailed)), /it is not empty; set moorage.dev\/adopt: "true"/);
    await command('blkdiscard', '--zeroout', `/dev/${vg}/stray`);
    await change('stray', { metadata: { annotations: { [status]: null } } });
    await until('stray', isProcessed);
    await isWhole(node, 'stray');
  });

  await t.test('a volume of k8s-local-pv is taken over with its data, where it is mounted', async () => {
    const path = pathOf('old');
    await command('lvcreate', '--yes', '--name', 'old', '--size', '64m', vg);
    await command('mkfs.ext4', '-q', `/dev/${vg}/old`);
    await mkdir(path);
    await command('mount', `/dev/${vg}/old`, path);
    await writeFile(join(path, 'file'), 'theirs');

    await create('old', '64Mi', { [status]: 'Processed', [`${prefix}fsType`]: 'xfs' });
    assert.match(
      messageOf(await until('old', isFailed)),
      /volume old holds ext4, xfs requested; it is never reformatted/,
    );
    await change('old', { metadata: { annotations: { [`${prefix}fsType`]: 'ext4' } } });
    await until('old', isProcessed);
    assert.ok((await lstat(path)).isDirectory());
    assert.equal(await readFile(join(path, 'file'), 'utf8'), 'theirs');

    await node.stop();
    await command('umount', path); // after a reboot without its unit
    await node.restart();
    await eventually('it is mounted', () => exists(join(path, 'file')));
    await isWhole(node, 'old');
    assert.equal(await readFile(join(path, 'file'), 'utf8'), 'theirs');
  });

  await t.test('data in the directory at the path is not covered', async () => {
    await mkdir(pathOf('covered'));
    await writeFile(join(pathOf('covered'), 'file'), 'on the root filesystem');
    await create('covered', '64Mi');
    assert.match(messageOf(await until('covered', isFailed)), /is a directory with data on the node's own disk/);
    assert.deepEqual(await readdir(pathOf('covered')), ['file']);
    await node.delete('covered');
    await until('covered', isRemoved);
    assert.deepEqual(await readdir(pathOf('covered')), ['file']);
  });

  await t.test('a volume in use is not removed; then it is shredded', async () => {
    const [disk = ''] = disks();
    await create('removed', '64Mi', { 'moorage.dev/on-removal': 'shred' });
    await until('removed', isProcessed);
    await writeFile(join(pathOf('removed'), 'file'), secret.repeat(1000));
    await command('sync');
    const pod = `${node.mountBase}-pod`;
    await mkdir(pod);
    await command('mount', '--bind', pathOf('removed'), pod); // as the kubelet does
    await node.delete('removed');
    assert.match(
      messageOf(await until('removed', (annotations) => messageOf(annotations) !== '')),
      /volume removed is still mounted at .*-pod;/,
    );
    assert.ok(await isOnDisk(disk, gibibyte));
    await isWhole(node, 'removed');
    await command('umount', pod);
    await command('rmdir', pod);
    await until('removed', isRemoved);
    assert.equal(await exists(pathOf('removed')), false);
    assert.equal(await exists(mountPointOf('removed')), false);
    assert.equal(await isOnDisk(disk, gibibyte), false);
  });

  await t.test('a released volume is emptied before the next claim can read it', async () => {
    const spec = { claimRef: { uid: 'claim-1' } };
    await create(
      'released',
      '64Mi',
      { [`${prefix}autoRelease`]: 'true' },
      { ...spec, local: { path: pathOf('released') }, capacity: { storage: '64Mi' } },
    );
    await until('released', isProcessed);
    await writeFile(join(pathOf('released'), 'file'), secret.repeat(1000));
    await command('sync');
    assert.ok(await foundOnDevice(`/dev/${vg}/released`, secret));
    await change('released', { status: { phase: 'Released' } });
    await until('released', (annotations) => annotations['moorage.dev/released'] === 'claim-1');
    await isWhole(node, 'released');
    assert.deepEqual(await readdir(pathOf('released')), ['lost+found']);
    assert.equal(await foundOnDevice(`/dev/${vg}/released`, secret), false);
  });

  await t.test('an encrypted volume waits for its key, and its data is not readable on the disk', async () => {
    await create('crypt', '64Mi', { [`${prefix}cryptSecret`]: 'key' });
    assert.match(messageOf(await until('crypt', isFailed)), /no Secret key with the entry passphrase/);
    secrets.set('key', { passphrase: Buffer.from('a long passphrase').toString('base64') });
    await until('crypt', isProcessed);
    await writeFile(join(pathOf('crypt'), 'file'), secret.repeat(1000));
    await command('sync');
    assert.equal(await foundOnDevice(`/dev/${vg}/crypt`, secret), false);
    await change('crypt', { spec: { capacity: { storage: '100Mi' } } });
    await until('crypt', (annotations) => annotations[`${prefix}size`] === '100Mi');
    assert.ok((await statfs(pathOf('crypt'))).blocks * (await statfs(pathOf('crypt'))).bsize > 70 * 1024 ** 2);
    await node.delete('crypt');
    await until('crypt', isRemoved);
    assert.doesNotMatch(await volumesIn(node), /crypt/);
  });
});

test('an agent that is killed at any step of creating or removing leaks and loses nothing', async (t) => {
  const node = await localPvNode(t);
  const { create, until, pathOf } = node;
  const before = await volumesIn(node);
  const untilKilledOr = async (killer: Killer, name: string, isDone: (annotations: Annotations) => boolean) => {
    await eventually('the agent is killed', async () => killer.isDone || isDone(await node.annotationsOf(name)));
    await node.restart();
    await until(name, isDone);
  };

  let isKilled = true;
  let step = 0;
  for (; isKilled; step++) {
    const name = `volume-${step}`;
    const [creating, removing] = [new Killer(step), new Killer(step)];
    await node.restart(creating);
    await create(name, '32Mi');
    await untilKilledOr(creating, name, isProcessed);
    await eventually('it is mounted', () => exists(pathOf(name)));
    await isWhole(node, name);

    await node.restart(removing);
    await node.delete(name);
    await untilKilledOr(removing, name, isRemoved);
    assert.equal(await exists(mountPointOf(name)), false);
    await node.change(name, { metadata: { finalizers: [] } });
    isKilled = creating.isDone || removing.isDone;
  }
  assert.ok(step > 8, `${step} steps`);
  assert.equal(await volumesIn(node), before);
  assert.deepEqual(await readdir(node.mountBase), []);
});
