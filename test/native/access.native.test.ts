import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { exists } from '../../src/base/exists.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { PreparedUse, Publication } from '../../src/csi/node/node-volumes.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { xfs } from '../../src/filesystem/xfs.ts';
import { RemotePools } from '../../src/lvmd/remote-pools.ts';
import { servingEngine } from '../../src/lvmd/testing/serving-engine.ts';
import { mebibyte, mounted, mounts, node, signal, sizeBytes } from './node-of-test.ts';
import { openFilePool, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const block: PreparedUse = { kind: 'block' };

test('a read-only pod cannot write, beside a pod that can', native, async (t) => {
  const { data, start, targetPath, publication } = await node(t);
  const volumes = start();
  const use = mounted(ext4);
  await volumes.publish(publication(use), signal);
  const reading = { ...publication(use), targetPath: `${targetPath}2`, readOnly: true };
  for (let i = 0; i < 2; i++) await volumes.publish(reading, signal);
  await writeFile(join(targetPath, 'file'), 'seen');
  assert.equal(await readFile(join(reading.targetPath, 'file'), 'utf8'), 'seen');
  await assert.rejects(writeFile(join(reading.targetPath, 'file'), ''), { code: 'EROFS' });
  await assert.rejects(volumes.publish({ ...reading, readOnly: false }, signal), { code: 'AlreadyExists' });
  const flagged = mounted(ext4, {}, ['ro']);
  await volumes.unpublish(data, targetPath, signal);
  await assert.rejects(volumes.publish({ ...publication(mounted(xfs)), targetPath }, signal), {
    name: 'FilesystemMismatch',
  });
  await volumes.publish(publication(flagged), signal);
});

test('a volume of a class with read-only mounts can be published repeatedly', native, async (t) => {
  const { data, start, targetPath, stagingPath, publication, growth } = await node(t);
  const use = mounted(ext4, {}, ['ro,noatime']);
  for (let i = 0; i < 2; i++) {
    await start().stage({ volumeId: data, stagingPath, use }, signal);
    await start().publish(publication(use), signal);
  }
  await assert.rejects(writeFile(join(targetPath, 'file'), ''), { code: 'EROFS' });
  await assert.rejects(start().grow(growth, signal), { name: 'CannotGrowReadOnly' });
});

test('a raw volume is its device at the target path, with its grown size', native, async (t) => {
  const { data, pool, start, stagingPath, targetPath, publication, growth, ran } = await node(t);
  const volumes = start();
  await volumes.stage({ volumeId: data, stagingPath, use: block }, signal);
  for (let i = 0; i < 2; i++) await volumes.publish(publication(block), signal);
  assert.deepEqual(ran(), ['mount']);
  await sh(`printf raw | dd of='${targetPath}' conv=notrunc,fsync status=none`);
  assert.equal(await sh(`head -c 3 ${pool.get(data)?.devicePath}`), 'raw');
  await pool.grow(data, 2n * sizeBytes, signal);
  assert.equal(await volumes.grow(growth, signal), 2n * sizeBytes);
  assert.deepEqual((await volumes.stats(data, targetPath, signal)).usage, [{ unit: 'bytes', total: 2n * sizeBytes }]);
  ran();
  await volumes.unpublish(data, targetPath, signal);
  assert.deepEqual(ran(), ['umount']);
  assert.equal(await exists(targetPath), false);
  await volumes.unstage(data, stagingPath, signal);
  const refused = volumes.publish(publication(mounted(ext4)), signal);
  await assert.rejects(refused, { name: 'DeviceUnreadable' }, 'a volume with raw data is never formatted');
});

test('a published raw volume is not removed, even if nobody has it open, or after a restart', native, async (t) => {
  const { data, directory, pool, start, targetPath, publication } = await node(t);
  await start().publish(publication(block), signal);
  const inUse = { name: 'VolumeInUse', message: new RegExp(targetPath) };
  await assert.rejects(pool.remove(data, signal), inUse);
  const reopened = await openFilePool(join(directory, 'pool'), { erase: { kind: 'zero' } });
  await assert.rejects(reopened.remove(data, signal), inUse);
  assert.ok(reopened.get(data));
  await start().unpublish(data, targetPath, signal);
  assert.equal(await reopened.remove(data, signal), 'erased');
});

test('an agent protects its published volumes from an lvmd that does not see its mounts', native, async (t) => {
  const { data, pool, start, targetPath, publication } = await node(t);
  await start().publish(publication(block), signal);
  const blind = new InMemoryPool('files', pool.capacity().sizeBytes);
  blind.list = () => pool.list();
  const { socketPath } = await servingEngine(t, [blind]);
  const remote = await RemotePools.connect({ socketPath, clock: systemClock, log: silentLog, random: () => 0 }, signal);
  t.after(() => remote.stop());
  const removal = remote.pools.get('files').remove(data, signal);
  await assert.rejects(removal, { name: 'VolumeInUse', message: new RegExp(targetPath) });
});

test('an inline ephemeral volume is created and removed with its pod', native, async (t) => {
  const { data, directory, pool, ephemeral, start, targetPath, publication } = await node(t);
  const use = mounted(ext4);
  const inline: Publication = {
    ...publication(use),
    volumeId: `csi-${'0123456789abcdef'.repeat(4)}`,
    stagingPath: undefined,
    ephemeral: { sizeBytes: 64n * mebibyte, deviceClass: '', podUid: 'gone', forClassesOnly: [] },
  };
  const volumes = start();
  for (let i = 0; i < 2; i++) await volumes.publish(inline, signal);
  await writeFile(join(targetPath, 'file'), 'scratch');

  await ephemeral.removeLeftovers(directory, signal); // its pod seems gone, but the volume is mounted
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
