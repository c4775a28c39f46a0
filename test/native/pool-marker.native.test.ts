import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../worlds/host/eventually.ts';
import {
  loopDevicesBelow,
  openFilePool,
  scratchDirectory,
  scratchFilesystem,
  sh,
  stateDirectory,
  whyNotRoot,
} from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const sizeBytes = 1024n ** 2n;

/** A disk that can be removed and returned, mounted at the directory of a pool. */
async function disk(t: TestContext) {
  const path = await scratchFilesystem(t, 'ext4');
  return {
    path,
    record: join(stateDirectory, 'file-pools', encodeURIComponent(path)),
    unmount: async () => {
      for (const loop of await loopDevicesBelow(`${path}/`)) await sh(`losetup -d ${loop}`);
      // The filesystem is busy until nobody has the devices open any more.
      await eventually('it is unmounted', () => sh(`umount ${path}`).then(() => true));
    },
    mount: () => sh(`mount -o loop ${join(path, '../disk.img')} ${path}`),
  };
}

test('a pool whose disk is not mounted at boot is unavailable, not empty', native, async (t) => {
  const { path, unmount, mount } = await disk(t);
  const pool = await openFilePool(path);
  await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await pool.stop(0);
  await unmount(); // like a boot without the disk

  await assert.rejects(openFilePool(path), { name: 'PoolMissing', message: /mount its disk/ });
  assert.deepEqual(await readdir(path), [], 'nothing is written below the mount point');

  await mount();
  assert.ok((await openFilePool(path)).get('data'));
});

test('a pool whose disk is unmounted while idle rejects changes, and has no free space', native, async (t) => {
  const { path, unmount, mount } = await disk(t);
  const pool = await openFilePool(path);
  await unmount();

  await assert.rejects(pool.remove('deleted-claim', signal), { name: 'PoolMissing' });
  await assert.rejects(pool.create({ id: 'new', sizeBytes, tags: [] }, signal), { name: 'PoolMissing' });
  await assert.rejects(pool.refresh(signal), { name: 'PoolMissing' });
  assert.equal(pool.capacity().freeBytes, 0n);
  assert.match(pool.details().problem ?? '', /mount its disk/);
  assert.deepEqual(await readdir(path), []);

  await mount();
  await pool.create({ id: 'new', sizeBytes, tags: [] }, signal);
  assert.ok(pool.capacity().freeBytes > 0n);
  const { type, directory, usedBytes, problem } = pool.details();
  assert.deepEqual([type, directory, problem], ['file', path, undefined]);
  assert.ok(usedBytes >= sizeBytes);
});

test('a pool does not use the disk of another pool', native, async (t) => {
  const { path } = await disk(t);
  await (await openFilePool(path)).stop(0);
  await writeFile(join(path, '.moorage-pool'), 'another\n');
  await assert.rejects(openFilePool(path), { name: 'PoolMissing', message: /belongs to another pool/ });
});

test('a pool without a marker, or on a new node, is accepted as it is', native, async (t) => {
  const { path, record } = await disk(t);
  const marker = join(path, '.moorage-pool');
  const pool = await openFilePool(path);
  await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);

  for (const gone of [[marker, record], [record]]) {
    for (const file of gone) await rm(file); // like before markers existed, or after the node was reinstalled
    assert.ok((await openFilePool(path)).get('data'));
    assert.equal(await readFile(marker, 'utf8'), await readFile(record, 'utf8'));
  }
});

test('a pool is not used if its use cannot be recorded', native, async (t) => {
  const path = await scratchDirectory(t);
  const record = join(stateDirectory, 'file-pools', encodeURIComponent(path));
  await mkdir(record, { recursive: true }); // no file can be written there
  await assert.rejects(openFilePool(path), { name: 'PoolMissing' });
});
