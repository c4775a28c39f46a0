import assert from 'node:assert/strict';
import { mkdir, open, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { PreparedUse, Publication } from '../../src/csi/node/node-volumes.ts';
import type { ErasePolicy } from '../../src/engine/config/device-classes.ts';
import { createdTag } from '../../src/engine/names-and-tags.ts';
import { Pools } from '../../src/engine/pools.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { type Filesystem, filesystems } from '../../src/filesystem/filesystem.ts';
import { Mounts } from '../../src/filesystem/mounts.ts';
import { EncryptedVolumes } from '../../src/volumes/encrypted-volumes.ts';
import { EphemeralVolumes } from '../../src/volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../../src/volumes/published-volumes.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { Engine, mebibyte, signal, thickClass, thinClass } from './lvm-pools.ts';

const sizeBytes = 320n * mebibyte;
const mounts = new Mounts({ run });
const block: PreparedUse = { kind: 'block' };

function mounted(filesystem: Filesystem) {
  const settings = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
  return { kind: 'filesystem', filesystem, mountFlags: [], settings } as const;
}

/** A node with a thick and a thin class, and a record of the programs that it ran. */
async function node(t: TestContext, erase: ErasePolicy = { kind: 'none' }) {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 2) });
  await command('lvcreate', '--yes', '--type', 'thin-pool', '--name', 'pool', '--size', '2g', vg);
  const engine = new Engine(t);
  const [thick, thin] = [await engine.open(thickClass(vg, { erase })), await engine.open(thinClass(vg, { erase }))];
  const programs: string[] = [];
  const counted: Run = (command, options) => {
    programs.push(command[0]);
    return run(command, options);
  };
  const pools = new Pools([thick, thin], 'ssd');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const encrypted = EncryptedVolumes.create({ run: counted, log: silentLog });
  const volumes = PublishedVolumes.create({ pools, ephemeral, encrypted, run: counted });
  const directory = `/tmp/${deviceName('node')}`;
  await mkdir(directory, { recursive: true });
  undoAfter(t, async () => {
    await command('sh', '-c', `grep -o '${directory}[^ ]*' /proc/self/mountinfo | sort -r | xargs -r umount`);
    await rm(directory, { recursive: true });
  });
  const publication = (volumeId: string, use: PreparedUse): Publication => ({
    volumeId,
    stagingPath: join(directory, volumeId, 'staged'),
    targetPath: join(directory, volumeId, 'target'),
    readOnly: false,
    exclusive: false,
    use,
    ephemeral: undefined,
  });
  return { vg, thick, thin, volumes, ephemeral, directory, publication, ran: () => programs.splice(0) };
}

async function totalBytes(path: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
}

test('filesystems of every kind are created, measured, grown and copied on real volumes', async (t) => {
  const { thick, thin, volumes, ephemeral, directory, publication, ran } = await node(t);

  for (const filesystem of filesystems) {
    const use = mounted(filesystem);

    await t.test(
      `${filesystem.name}: grows while it is written to, and after its volume was grown unmounted`,
      async () => {
        const id = `thick-${filesystem.name}`;
        await thick.create({ id, sizeBytes, tags: [] }, signal);
        const published = publication(id, use);
        const { targetPath, stagingPath = '' } = published;
        const staging = { volumeId: id, stagingPath, use };
        ran();
        await volumes.stage(staging, signal);
        await volumes.publish(published, signal);
        assert.deepEqual(ran(), ['sh', `mkfs.${filesystem.name}`, 'mount', 'mount']);
        const before = await totalBytes(targetPath);
        {
          await using file = await open(join(targetPath, 'file'), 'w');
          await file.write('before ');
          await thick.grow(id, 2n * sizeBytes, signal);
          const growth = { volumeId: id, volumePath: targetPath, stagingPath, isBlock: undefined };
          assert.equal(await volumes.grow(growth, signal), 2n * sizeBytes);
          assert.equal(ran().length, 1);
          await file.write('after');
        }
        const online = await totalBytes(targetPath);
        assert.ok(online - before > sizeBytes / 2n, `${before} became ${online}`);
        const [bytes] = (await volumes.stats(id, targetPath, signal)).usage;
        assert.equal(bytes?.total, online);
        assert.deepEqual(ran(), [], 'volume stats start no process');

        await volumes.unpublish(id, targetPath, signal);
        await volumes.unstage(id, stagingPath, signal);
        await thick.grow(id, 3n * sizeBytes, signal);
        ran();
        await volumes.stage(staging, signal);
        assert.equal(ran().length, 2, 'mount and growth');
        assert.ok((await totalBytes(stagingPath)) - online > sizeBytes / 2n);
        assert.equal(await readFile(join(stagingPath, 'file'), 'utf8'), 'before after');
        await volumes.unstage(id, stagingPath, signal);
        ran();
        await volumes.stage(staging, signal);
        assert.deepEqual(ran(), ['mount'], 'recognised by its superblock, with the size of its device');
        await volumes.unstage(id, stagingPath, signal);
        await thick.remove(id, signal);
      },
    );

    await t.test(`${filesystem.name}: a thin copy can be larger or read-only while its source is mounted`, async () => {
      const id = `thin-${filesystem.name}`;
      await thin.create({ id, sizeBytes, tags: [] }, signal);
      const source = publication(id, use);
      await volumes.publish(source, signal);
      await writeFile(join(source.targetPath, 'file'), 'copied');
      await command('sync', '-f', source.targetPath);
      await using writer = await open(join(source.targetPath, 'open'), 'w'); // its journal is not empty
      await writer.write('later');
      await thin.snapshot(id, { id: `${id}-large`, tags: [], sizeBytes: 2n * sizeBytes, access: 'rw' }, signal);
      await thin.snapshot(id, { id: `${id}-frozen`, tags: [], access: 'ro' }, signal);

      const [large, frozen] = [publication(`${id}-large`, use), publication(`${id}-frozen`, use)];
      for (const copy of [large, frozen]) {
        await volumes.publish(copy, signal);
        ran();
        await volumes.publish(copy, signal); // repeated
        assert.deepEqual(ran(), []);
        assert.equal(await readFile(join(copy.targetPath, 'file'), 'utf8'), 'copied');
      }
      assert.ok((await totalBytes(large.targetPath)) > (3n * sizeBytes) / 2n);
      await assert.rejects(writeFile(join(frozen.targetPath, 'file'), ''), { code: 'EROFS' });
      await writer.close();
      for (const { volumeId, targetPath, stagingPath = '' } of [large, frozen, source]) {
        await volumes.unpublish(volumeId, targetPath, signal);
        await volumes.unstage(volumeId, stagingPath, signal);
        await thin.remove(volumeId, signal);
      }
    });
  }

  await t.test('a raw volume is its device, with its grown size', async () => {
    await thin.create({ id: 'raw', sizeBytes, tags: [] }, signal);
    const published = publication('raw', block);
    const { targetPath } = published;
    for (let i = 0; i < 2; i++) await volumes.publish(published, signal);
    assert.ok((await stat(targetPath)).isBlockDevice());
    await thin.grow('raw', 2n * sizeBytes, signal);
    const growth = { volumeId: 'raw', volumePath: targetPath, stagingPath: undefined, isBlock: undefined };
    assert.equal(await volumes.grow(growth, signal), 2n * sizeBytes);
    assert.equal(await command('blockdev', '--getsize64', targetPath), String(2n * sizeBytes));
    assert.deepEqual((await volumes.stats('raw', targetPath, signal)).usage, [
      { unit: 'bytes', total: 2n * sizeBytes },
    ]);
    await volumes.unpublish('raw', targetPath, signal);
    await thin.remove('raw', signal);
  });

  await t.test('an inline volume is removed with its pod, and never while it is mounted', async () => {
    const id = `csi-${'0123456789abcdef'.repeat(4)}`;
    const requested = { sizeBytes: 64n * mebibyte, deviceClass: 'thin', podUid: 'gone', forClassesOnly: [] };
    const published = { ...publication(id, mounted(ext4)), stagingPath: undefined, ephemeral: requested };
    await volumes.publish(published, signal);
    const { tags = [] } = thin.get(id) ?? {};
    for (const tag of ['ephemeral', 'moorage.dev/pod=gone', createdTag]) assert.ok(tags.includes(tag), tag);
    await ephemeral.removeLeftovers(directory, signal);
    assert.ok(thin.get(id), 'LVM itself refuses, as it is mounted');
    await volumes.unpublish(id, published.targetPath, signal);
    assert.equal(thin.get(id), undefined);

    await volumes.publish(published, signal);
    await mounts.unmount(published.targetPath, signal); // like a power loss
    await ephemeral.removeLeftovers(directory, signal);
    assert.equal(thin.get(id), undefined);
    await volumes.unpublish(id, published.targetPath, signal);
  });
});

for (const kind of ['none', 'zero'] as const) {
  test(`with erase: ${kind}, a published raw volume is not removed, even if nobody has it open`, async (t) => {
    const { thick, thin, volumes, publication } = await node(t, { kind });
    for (const [id, pool] of [
      ['thick', thick],
      ['thin', thin],
    ] as const) {
      const { devicePath } = await pool.create({ id, sizeBytes: 8n * mebibyte, tags: [] }, signal);
      const published = publication(id, block);
      await volumes.publish(published, signal);
      const { rdev } = await stat(devicePath);
      await assert.rejects(pool.remove(id, signal), { name: 'VolumeInUse', message: new RegExp(published.targetPath) });
      assert.ok(pool.get(id));
      assert.equal((await stat(published.targetPath)).rdev, rdev, 'still its own device');
      await volumes.unpublish(id, published.targetPath, signal);
      assert.equal(await pool.remove(id, signal), kind === 'none' ? 'removed' : 'erased');
    }
  });
}

test('a volume that is suspended or missing is reported as abnormal', async (t) => {
  const { vg, thick, volumes, publication, ran } = await node(t);
  const use = mounted(ext4);
  for (const id of ['stopped', 'lost']) {
    await thick.create({ id, sizeBytes: 64n * mebibyte, tags: [] }, signal);
    await volumes.publish(publication(id, use), signal);
  }
  ran();
  const condition = async (id: string) => (await volumes.stats(id, publication(id, use).targetPath, signal)).condition;
  assert.equal((await condition('stopped')).isAbnormal, false);

  const device = `/dev/${vg}/stopped`;
  await command('dmsetup', 'suspend', '--nolockfs', device);
  undoAfter(t, () => command('dmsetup', 'resume', device)); // otherwise it could not be unmounted
  await thick.refresh(signal);
  const { isAbnormal, message } = await condition('stopped');
  await command('dmsetup', 'resume', device);
  assert.deepEqual([isAbnormal, /is suspended/.test(message)], [true, true]);
  await thick.refresh(signal);
  assert.equal((await condition('stopped')).isAbnormal, false);

  await command('lvrename', vg, 'lost', 'elsewhere'); // behind our back
  await thick.refresh(signal);
  assert.match((await condition('lost')).message, /no device class of this node has volume lost;/);
  assert.deepEqual(ran(), []);
});

/** blkid looks there for RAID signatures and the like; it gives up silently if it cannot read them. */
test('a volume whose end cannot be read is never formatted', async (t) => {
  const { vg, thick, volumes, directory, ran } = await node(t);
  const device = `/dev/${vg}/old`;
  await command('lvcreate', '--yes', '--name', 'old', '--size', '320m', vg); // untagged, as TopoLVM creates them
  await command('mkfs.btrfs', '-q', device);
  const [, sectors = '', , disk, offset] = (await command('dmsetup', 'table', device)).split(' ');
  const readable = Number(sectors) - 128;
  const tables = [`0 ${readable} linear ${disk} ${offset}`, `${readable} 128 error`];
  await command('sh', '-c', `printf '${tables.join('\\n')}' | dmsetup load ${device}`);
  await command('dmsetup', 'suspend', device);
  await command('dmsetup', 'resume', device);
  const content = () => command('sh', '-c', `head -c 64M ${device} | sha256sum`);
  const before = await content();
  await thick.refresh(signal);

  for (const filesystem of filesystems) {
    const staging = { volumeId: 'old', stagingPath: join(directory, filesystem.name), use: mounted(filesystem) };
    await mkdir(staging.stagingPath);
    await assert.rejects(volumes.stage(staging, signal), { name: 'DeviceUnreadable' }, filesystem.name);
    assert.ok(!ran().some((program) => program.startsWith('mkfs')));
  }
  assert.equal(await content(), before);
});

test('a volume that was never used can be retired, and only such a volume; its tags on the disk say so', async (t) => {
  const { vg, thick, thin, volumes, publication } = await node(t);
  const use = mounted(ext4);
  for (const pool of [thick, thin]) {
    const id = (what: string) => `${what}-${pool.name}`;
    const create = (what: string) =>
      pool.create({ id: id(what), sizeBytes: 32n * mebibyte, tags: ['moorage.dev/volume=pvc-1'] }, signal);
    for (const what of ['new', 'used', 'raw']) await create(what);
    const { devicePath } = await create('topolvm');
    assert.equal(await volumes.retireIfUnused(id('new'), signal), true);
    await assert.rejects(volumes.publish(publication(id('new'), use), signal), { name: 'VolumeRetired' });
    assert.match(await command('lvs', '--noheadings', '-o', 'lv_tags', `${vg}/${id('new')}`), /moorage\.dev\/retired/);

    await volumes.publish(publication(id('used'), use), signal);
    await volumes.publish(publication(id('raw'), block), signal);
    await command('mkfs.ext4', '-q', devicePath);
    for (const what of ['used', 'raw', 'topolvm']) assert.equal(await volumes.retireIfUnused(id(what), signal), false);
  }
});
