import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Pools } from '../../src/engine/pools.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { EncryptedVolumes } from '../../src/volumes/encrypted-volumes.ts';
import { EphemeralVolumes } from '../../src/volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../../src/volumes/published-volumes.ts';
import { run } from '../../worlds/host/processes.ts';
import { mebibyte, mounted, mounts, signal } from './node-of-test.ts';
import { openFilePool, scratchDirectory, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const sizeBytes = 32n * mebibyte;
const encrypted = EncryptedVolumes.create({ run, log: silentLog });

test(
  'a volume cannot be removed while it is being staged, so no other volume gets its loop device',
  native,
  async (t) => {
    const directory = await scratchDirectory(t);
    const path = join(directory, 'pool');
    await mkdir(path);
    const pool = await openFilePool(path);
    const { devicePath } = await pool.create({ id: 'staged', sizeBytes, tags: [] }, signal);
    const removals: unknown[] = [];
    const meanwhile: Run = async (command, options) => {
      if (command[0] === 'mkfs.ext4') {
        removals.push(await pool.remove('staged', signal).catch((error: unknown) => error));
        await pool.create({ id: 'other', sizeBytes, tags: [] }, signal);
      }
      return run(command, options);
    };
    const pools = new Pools([pool], 'files');
    const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
    const stagingPath = join(directory, 'staging');
    await PublishedVolumes.create({ pools, ephemeral, encrypted, run: meanwhile }).stage(
      { volumeId: 'staged', stagingPath, use: mounted(ext4) },
      signal,
    );
    assert.match(String(removals), /^VolumeInUse:/);
    assert.equal((await mounts.at(stagingPath))?.source, pool.get('staged')?.devicePath);
    assert.equal(pool.get('staged')?.devicePath, devicePath);
    const other = pool.get('other')?.devicePath;
    assert.equal(await sh(`head -c 65536 ${other} | tr -d '\\0' | wc -c`), '0', 'the other one was not touched');
  },
);

test('a loop device that no longer belongs to the volume is not used', native, async (t) => {
  const directory = await scratchDirectory(t);
  const pool = await openFilePool(directory);
  const volume = await pool.create({ id: 'staged', sizeBytes, tags: [] }, signal);
  const { devicePath } = await pool.create({ id: 'other', sizeBytes, tags: [] }, signal);
  t.mock.method(pool, 'get', () => ({ ...volume, devicePath })); // an outdated answer
  const pools = new Pools([pool], 'files');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const volumes = PublishedVolumes.create({ pools, ephemeral, encrypted, run });
  const stagingPath = join(directory, 'staging');
  const staging = { volumeId: 'staged', stagingPath, use: mounted(ext4) };
  await assert.rejects(volumes.stage(staging, signal), { name: 'DeviceGone', code: 'Unavailable' });
  const publication = { ...staging, targetPath: join(directory, 'target'), readOnly: false, exclusive: false };
  await assert.rejects(volumes.publish({ ...publication, use: { kind: 'block' }, ephemeral: undefined }, signal), {
    name: 'DeviceGone',
  });
  assert.equal(await sh(`head -c 65536 ${devicePath} | tr -d '\\0' | wc -c`), '0');
});

test('the error of a volume without a device names it and says what to check', native, async (t) => {
  const directory = await scratchDirectory(t);
  const pool = await openFilePool(directory);
  const volume = await pool.create({ id: 'staged', sizeBytes, tags: [] }, signal);
  t.mock.method(pool, 'get', () => ({ ...volume, devicePath: join(directory, 'gone') }));
  const pools = new Pools([pool], 'files');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const volumes = PublishedVolumes.create({ pools, ephemeral, encrypted, run });
  const staging = { volumeId: 'staged', stagingPath: join(directory, 'staging'), use: mounted(ext4) };
  await assert.rejects(volumes.stage(staging, signal), {
    name: 'VolumeInactive',
    message: /^volume staged has no device: ENOENT.*; look for a missing disk/,
  });
});
