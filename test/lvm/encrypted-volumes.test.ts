import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { Encryption, PreparedUse } from '../../src/csi/node/node-volumes.ts';
import { luksDevicePath, luksHeaderBytes } from '../../src/engine/luks-device.ts';
import { encryptedTag } from '../../src/engine/names-and-tags.ts';
import { Pools } from '../../src/engine/pools.ts';
import { volumeOf } from '../../src/engine/testing/volume-of.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { filesystemUuid } from '../../src/filesystem/format.ts';
import { Luks } from '../../src/filesystem/luks.ts';
import { blkid, superblockReader } from '../../src/filesystem/probe.ts';
import { VolumeKeys } from '../../src/filesystem/volume-keys.ts';
import { xfs } from '../../src/filesystem/xfs.ts';
import { EncryptedVolumes } from '../../src/volumes/encrypted-volumes.ts';
import { EphemeralVolumes } from '../../src/volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../../src/volumes/published-volumes.ts';
import { foundOnDevice } from '../../worlds/lvm/found-on-device.ts';
import { command, deviceName, disks } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { cheapDerivation } from './cheap-encryption.ts';
import { engineOfTest } from './engine-of-test.ts';
import { mebibyte, signal } from './lvm-pools.ts';
import { onNewGroup } from './thick-pools.ts';

const sizeBytes = 64n * mebibyte;
/** The thin pool, and the volumes after it. */
const usedByGroup = 420 * 1024 ** 2;
const pattern = 'moorage-plaintext-';
const probe = blkid(run);
const block: PreparedUse = { kind: 'block' };
const onExt4 = { kind: 'filesystem', filesystem: ext4, mountFlags: [], settings: plainSettings() } as const;

function plainSettings() {
  return { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
}

const keys = (current: string, previous?: string) =>
  new VolumeKeys(Buffer.from(current), previous === undefined ? undefined : Buffer.from(previous));
const withKey = (current: string, previous?: string) => ({ isRequested: true, keys: keys(current, previous) });

/** What the agent does with volumes, from the state of the kernel and the disks alone: each call is like a restart. */
async function agent(t: TestContext, pools: Pools) {
  const directory = `/tmp/${deviceName('agent')}`;
  await mkdir(directory, { recursive: true });
  undoAfter(t, async () => {
    await command('sh', '-c', `grep -o '${directory}[^ ]*' /proc/self/mountinfo | sort -r | xargs -r umount`);
    await command('sh', '-c', 'ls /dev/mapper | grep ^moorage-luks- | xargs -r -n 1 cryptsetup close');
    await rm(directory, { recursive: true });
  });
  const paths = (id: string) => ({
    stagingPath: join(directory, 'plugins/kubernetes.io/csi', id, 'globalmount'), // as the kubelet's
    targetPath: join(directory, id, 'target'),
  });
  const volumes = () => {
    const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
    const luks = new Luks({ run, probe, derivation: cheapDerivation });
    const encrypted = new EncryptedVolumes({ luks, superblock: superblockReader(), log: silentLog });
    return PublishedVolumes.create({ pools, ephemeral, encrypted, run });
  };
  return {
    paths,
    volumes,
    stage: async (id: string, encryption: Encryption, use: PreparedUse = onExt4): Promise<string> => {
      const { stagingPath } = paths(id);
      await volumes().stage({ volumeId: id, stagingPath, use, encryption }, signal);
      return stagingPath;
    },
    publish: async (id: string, use: PreparedUse = onExt4, keys?: VolumeKeys): Promise<string> => {
      const shared = { readOnly: false, exclusive: false, ephemeral: undefined };
      const encryption = { isRequested: true, keys };
      await volumes().publish({ volumeId: id, ...paths(id), ...shared, use, encryption }, signal);
      return paths(id).targetPath;
    },
    release: async (id: string): Promise<void> => {
      const { targetPath, stagingPath } = paths(id);
      await volumes().unpublish(id, targetPath, signal);
      await volumes().unstage(id, stagingPath, signal);
    },
  };
}

async function totalBytes(path: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
}

/** Whether the header of a volume, which contains its UUID as text, is on the disk of the volume group. */
async function isHeaderOnDisk(id: string): Promise<boolean> {
  const [disk = ''] = disks();
  await command('sh', '-c', `sync; blockdev --flushbufs ${disk}`);
  return foundOnDevice(disk, filesystemUuid(id), usedByGroup);
}

test('an encrypted volume of every kind is created, used, grown, re-keyed, copied and destroyed', async (t) => {
  const { engine } = await engineOfTest(t);
  const { stage, publish, release, paths, volumes } = await agent(t, engine.pools);

  for (const kind of ['thick', 'thin', 'file']) {
    await t.test(`${kind}: nothing readable is on the disk, and a claim works as without encryption`, async () => {
      const pool = engine.pools.get(kind);
      const id = `${kind}-data`;
      await pool.create({ id, sizeBytes, tags: [] }, signal);
      await assert.rejects(stage(id, { isRequested: true, keys: undefined }), { name: 'KeyMissing' });
      await stage(id, withKey('old'));
      const at = await publish(id);
      await writeFile(join(at, 'file'), pattern.repeat(1000));
      await command('sync', '-f', at);
      assert.equal(await foundOnDevice(luksDevicePath(id), pattern), true);
      assert.equal(await foundOnDevice(volumeOf(pool, id).devicePath, pattern), false);

      const before = await totalBytes(at);
      await pool.grow(id, 2n * sizeBytes, signal);
      const growth = { volumeId: id, volumePath: at, stagingPath: paths(id).stagingPath, isBlock: undefined };
      await assert.rejects(volumes().grow(growth, signal), { name: 'KeyNeededToGrow' });
      assert.equal(await volumes().grow({ ...growth, keys: keys('old') }, signal), 2n * sizeBytes);
      const [usage] = (await volumes().stats(id, at, signal)).usage;
      assert.ok((usage?.total ?? 0n) - before > sizeBytes / 2n, `${before} became ${usage?.total}`);
      await assert.rejects(pool.remove(id, signal), { name: 'VolumeInUse' });
      await release(id);
      assert.equal(existsSync(luksDevicePath(id)), false);

      await assert.rejects(stage(id, withKey('wrong')), { name: 'WrongKey', code: 'PermissionDenied' });
      await assert.rejects(stage(id, withKey('wrong', 'too')), { name: 'WrongKey' });
      await stage(id, withKey('new', 'old'));
      await release(id);
      await assert.rejects(stage(id, withKey('old')), { name: 'WrongKey' });
      assert.equal(existsSync(luksDevicePath(id)), false, 'a refused volume is not left open');
      assert.equal(await readFile(join(await stage(id, withKey('new')), 'file'), 'utf8'), pattern.repeat(1000));

      await command('umount', paths(id).stagingPath); // and the agent dies
      assert.ok(existsSync(luksDevicePath(id)));
      if (kind !== 'file') assert.equal(await isHeaderOnDisk(id), true);
      assert.equal(await pool.remove(id, signal), 'removed');
      assert.equal(existsSync(luksDevicePath(id)), false);
      if (kind !== 'file') assert.equal(await isHeaderOnDisk(id), false, 'the keys are destroyed');
    });
  }

  for (const kind of ['thin', 'file']) {
    await t.test(`${kind}: copies open with the key of their source, contain what was written, and grow`, async () => {
      const pool = engine.pools.get(kind);
      const [id, copy] = [`${kind}-source`, `${kind}-copy`];
      await pool.create({ id, sizeBytes, tags: [] }, signal);
      await stage(id, withKey('k'));
      await writeFile(join(await publish(id), 'file'), pattern); // not synced
      await pool.snapshot(id, { id: copy, tags: [], sizeBytes: 2n * sizeBytes, access: 'rw' }, signal);
      await writeFile(join(paths(id).targetPath, 'file'), 'later');

      await assert.rejects(stage(copy, withKey('other')), { name: 'WrongKey' });
      const at = await stage(copy, withKey('k'));
      assert.equal(await readFile(join(at, 'file'), 'utf8'), pattern);
      assert.ok((await totalBytes(at)) > (3n * sizeBytes) / 2n, 'its filesystem fills the larger volume');
      for (const each of [copy, id]) {
        await release(each);
        assert.equal(await pool.remove(each, signal), 'removed');
      }
    });
  }

  await t.test('a staged volume is closed for a move by the next agent, and opened again by its key', async () => {
    const pool = engine.pools.get('thick');
    await pool.create({ id: 'moving', sizeBytes, tags: [] }, signal);
    await stage('moving', withKey('k'));
    const at = await publish('moving');
    await writeFile(join(at, 'file'), pattern);
    await volumes().close('moving', signal);
    assert.equal(await readFile(join(at, 'file'), 'utf8'), pattern, 'a pod has it');
    await volumes().unpublish('moving', at, signal);
    await volumes().close('moving', signal);
    assert.equal(existsSync(luksDevicePath('moving')), false);

    await assert.rejects(publish('moving'), { name: 'KeyMissing' });
    await publish('moving', onExt4, keys('k'));
    assert.equal(await readFile(join(at, 'file'), 'utf8'), pattern);
    await release('moving');
    assert.equal(await pool.remove('moving', signal), 'removed');
  });

  await t.test('a raw volume is the decrypted device, also after it has grown', async () => {
    const pool = engine.pools.get('thin');
    await pool.create({ id: 'raw', sizeBytes, tags: [] }, signal);
    await stage('raw', withKey('k'), block);
    const at = await publish('raw', block);
    assert.equal((await stat(at)).rdev, (await stat(luksDevicePath('raw'))).rdev);
    await command('sh', '-c', `printf ${pattern} | dd of=${at} conv=fsync status=none`);
    assert.equal(await foundOnDevice(volumeOf(pool, 'raw').devicePath, pattern), false);
    await pool.grow('raw', 2n * sizeBytes, signal);
    const growth = { volumeId: 'raw', volumePath: at, stagingPath: paths('raw').stagingPath, isBlock: true };
    await volumes().grow({ ...growth, keys: keys('k') }, signal);
    const total = 2n * sizeBytes - luksHeaderBytes;
    assert.equal(await command('blockdev', '--getsize64', at), String(total));
    assert.deepEqual((await volumes().stats('raw', at, signal)).usage, [{ unit: 'bytes', total }]);

    await assert.rejects(pool.remove('raw', signal), { name: 'VolumeInUse', message: new RegExp(at) });
    await assert.rejects(volumes().unstage('raw', paths('raw').stagingPath, signal), { name: 'VolumeInUse' });
    await release('raw');
    assert.equal(await pool.remove('raw', signal), 'removed');
  });

  await t.test('an existing volume is neither encrypted over nor used without its key', async () => {
    const pool = engine.pools.get('thick');
    await pool.create({ id: 'plain', sizeBytes, tags: [] }, signal);
    const { stagingPath } = paths('plain');
    await volumes().stage({ volumeId: 'plain', stagingPath, use: onExt4 }, signal);
    await writeFile(join(stagingPath, 'file'), 'kept');
    await release('plain');
    await assert.rejects(stage('plain', withKey('k')), {
      name: 'FilesystemMismatch',
      message: /holds ext4, crypto_LUKS requested; it is never reformatted/,
    });
    await volumes().stage({ volumeId: 'plain', stagingPath, use: onExt4 }, signal);
    assert.equal(await readFile(join(stagingPath, 'file'), 'utf8'), 'kept');
    await release('plain');
    await pool.remove('plain', signal);

    await pool.create({ id: 'encrypted', sizeBytes, tags: [] }, signal);
    await stage('encrypted', withKey('k'), block);
    await release('encrypted');
    const asPlain = { volumeId: 'encrypted', stagingPath: paths('encrypted').stagingPath };
    for (const use of [onExt4, block]) {
      await assert.rejects(volumes().stage({ ...asPlain, use }, signal), { name: 'KeyMissing' });
    }
    await command('lvchange', '--deltag', encryptedTag, volumeOf(pool, 'encrypted').devicePath); // only the header is left
    await pool.refresh(signal);
    for (const [use, name] of [
      [onExt4, 'FilesystemMismatch'],
      [block, 'FilesystemForeign'],
    ] as const) {
      const published = {
        ...asPlain,
        ...paths('encrypted'),
        readOnly: false,
        exclusive: false,
        use,
        ephemeral: undefined,
      };
      await assert.rejects(volumes().publish(published, signal), { name });
    }
    await pool.remove('encrypted', signal);
  });

  await t.test('a mount that fails leaves nothing open', async () => {
    const pool = engine.pools.get('thick');
    await pool.create({ id: 'odd', sizeBytes: 400n * mebibyte, tags: [] }, signal);
    const use = { ...onExt4, filesystem: xfs, mountFlags: ['nonsense'] };
    await assert.rejects(stage('odd', withKey('k'), use), { name: 'NotMountable' });
    assert.equal(existsSync(luksDevicePath('odd')), false);
    await stage('odd', withKey('k'), { ...use, mountFlags: [] });
    await release('odd');
    await pool.remove('odd', signal);
  });
});

test('a snapshot of an encrypted thick volume is restored into a larger one', async (t) => {
  const { pool } = await onNewGroup(t, { snapshots: 'copy-on-write' });
  const { stage, release, paths } = await agent(t, new Pools([pool], 'ssd'));
  await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await writeFile(join(await stage('data', withKey('k')), 'file'), pattern); // not synced
  await pool.snapshot('data', { id: 'moment', tags: [], access: 'ro' }, signal);
  await writeFile(join(paths('data').stagingPath, 'file'), 'later');
  await pool.snapshot('moment', { id: 'restored', tags: [], sizeBytes: 2n * sizeBytes, access: 'rw' }, signal);

  const at = await stage('restored', withKey('k'));
  assert.equal(await readFile(join(at, 'file'), 'utf8'), pattern);
  assert.ok((await totalBytes(at)) > (3n * sizeBytes) / 2n);
  for (const id of ['restored', 'data']) await release(id);
  for (const id of ['restored', 'moment', 'data']) assert.equal(await pool.remove(id, signal), 'removed');
});
