import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/log.ts';
import { EphemeralVolumes } from '../../src/node/ephemeral-volumes.ts';
import { publishing } from '../../src/node/publishing.ts';
import type { Filesystem } from '../../src/storage/filesystem.ts';
import { Pools } from '../../src/storage/pools.ts';
import { openFilePool, scratchDirectory, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const sizeBytes = 320n * 1024n ** 2n;

interface Options {
  readonly mkfsOptions?: readonly string[];
  readonly mountFlags?: readonly string[];
}

async function node(t: TestContext) {
  const directory = await scratchDirectory(t);
  const path = join(directory, 'pool');
  await mkdir(path);
  const pool = await openFilePool(path);
  const volumeId = `data-${randomUUID()}`; // mkfs.btrfs looks at all devices of the machine for one that has its UUID
  await pool.create({ id: volumeId, sizeBytes, tags: [] }, signal);
  const pools = new Pools([pool], 'files');
  const volumes = publishing({ pools, ephemeral: new EphemeralVolumes({ pools, log: silentLog }), run });
  const stagingPath = join(directory, 'staged');
  const stage = (filesystem: Filesystem, { mkfsOptions = [], mountFlags = [] }: Options) => {
    const settings = { mkfsOptions, rootMode: 0o755, rootOwner: { uid: 0, gid: 0 } };
    return volumes.stage(
      { volumeId, stagingPath, use: { kind: 'filesystem', filesystem, mountFlags, settings } },
      signal,
    );
  };
  return { stage, unstage: () => volumes.unstage(volumeId, stagingPath, signal), pool, volumeId };
}

test('options that mkfs refuses are named with their field, and the right ones work afterwards', native, async (t) => {
  const { stage, unstage } = await node(t);
  await assert.rejects(
    stage('ext4', { mkfsOptions: ['-i', '1'] }),
    /^FilesystemNotMade: no ext4 could be made on volume data-.*invalid inode ratio.*; correct moorage.dev\/mkfs-options \(-i 1\), or /,
  );
  await stage('ext4', { mkfsOptions: ['-i', '8192'] });
  await unstage();
});

test('options that mount refuses are named with their field, and the right ones work afterwards', native, async (t) => {
  const { stage, unstage } = await node(t);
  await assert.rejects(
    stage('ext4', { mountFlags: ['noatime', 'nonsense'] }),
    /^NotMountable: volume data-.*; correct mountOptions \(noatime, nonsense\) of the StorageClass and the PersistentVolume, or /,
  );
  await stage('ext4', { mountFlags: ['noatime'] });
  await unstage();
});

test('a damaged filesystem is not blamed on options that nobody gave', native, async (t) => {
  const { stage, unstage, pool, volumeId } = await node(t);
  await stage('xfs', {});
  await unstage();
  const { devicePath = '' } = pool.get(volumeId) ?? {};
  await sh(`dd if=/dev/zero of=${devicePath} bs=512 seek=1 count=7 conv=notrunc status=none`); // what follows the superblock
  await assert.rejects(
    stage('xfs', {}),
    /^NotMountable: volume data-[^ ]+ cannot be mounted: [^;]*;(?!.*mountOptions).* look into the filesystem on the node with xfs_repair -n$/,
  );
});
