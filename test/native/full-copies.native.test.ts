import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import type { ErasePolicy } from '../../src/engine/config/device-classes.ts';
import type { Removal } from '../../src/engine/pool.ts';
import { volumeOf } from '../../src/engine/testing/volume-of.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { Formatter } from '../../src/filesystem/format.ts';
import { Mounts } from '../../src/filesystem/mounts.ts';
import { blkid, superblockReader } from '../../src/filesystem/probe.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { run } from '../../worlds/host/processes.ts';
import { openFilePool, scratchDirectory, scratchFilesystem, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;
const sizeBytes = 32n * mebibyte;
const wanted = { id: 'copy', tags: [], access: 'rw' } as const;
const formatter = new Formatter({ run, probe: blkid(run), superblock: superblockReader() });
const mounts = new Mounts({ run });

/** A pool on ext4, which shares no blocks, with a volume full of data; calls back once during its copy. */
async function poolOnExt4(t: TestContext, { erase }: { readonly erase?: ErasePolicy } = {}) {
  const path = await scratchFilesystem(t, 'ext4');
  const during: (() => void)[] = [];
  const log = createLog('test', 'info', (line) => {
    if (line.includes('copying volume data into copy')) during.splice(0).forEach((act) => act());
  });
  const open = () => openFilePool(path, { log, ...(erase && { erase }) });
  const pool = await open();
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: ['claim=a'] }, signal);
  await sh(`head -c ${sizeBytes} /dev/urandom | dd of=${devicePath} bs=1M conv=fsync status=none`);
  const drafts = async () => (await readdir(path)).filter((name) => name.endsWith('.new'));
  return { path, pool, open, devicePath, drafts, meanwhile: (act: () => void) => void during.push(act) };
}

const checksum = (devicePath = '') => sh(`head -c ${sizeBytes} ${devicePath} | sha256sum`);

test('without block sharing, an unused volume is copied in full', native, async (t) => {
  const { pool, open, devicePath } = await poolOnExt4(t);
  const before = pool.capacity().freeBytes;
  const copy = await pool.snapshot('data', { ...wanted, sizeBytes: 2n * sizeBytes }, signal);
  assert.deepEqual([copy.origin, copy.sizeBytes], ['data', 2n * sizeBytes]);
  assert.equal(await checksum(copy.devicePath), await checksum(devicePath));
  assert.ok(before - pool.capacity().freeBytes >= 2n * sizeBytes, 'its space is reserved');
  assert.deepEqual(await pool.snapshot('data', { ...wanted, sizeBytes: 2n * sizeBytes }, signal), copy); // repeated
  await assert.rejects(pool.snapshot('copy', { ...wanted, id: 'data' }, signal), { name: 'NameTaken' });

  const frozen = await pool.snapshot('data', { id: 'frozen', tags: [], access: 'ro' }, signal);
  assert.equal(await sh(`blockdev --getro ${frozen.devicePath}`), '1');
  const restored = await pool.snapshot('frozen', { id: 'restored', tags: [], access: 'rw' }, signal);
  assert.equal(await checksum(restored.devicePath), await checksum(devicePath));
  await pool.remove('data', signal);
  assert.equal(await checksum((await open()).get('restored')?.devicePath), await checksum(frozen.devicePath));
});

test(
  'without block sharing, a copy of a mounted or published volume is rejected with the reason',
  native,
  async (t) => {
    const { path, pool, devicePath, drafts } = await poolOnExt4(t);
    const place = await scratchDirectory(t);
    const refusal = { name: 'CopyNeedsRest', code: 'FailedPrecondition', message: /while it is in use.*xfs or btrfs/ };
    await pool.create({ id: 'mounted', sizeBytes, tags: [] }, signal);
    const volume = await formatter.ensure(pool, volumeOf(pool, 'mounted'), ext4, signal);
    const [target, node] = [join(place, 'mounted'), join(place, 'raw')];
    await mkdir(target);
    await writeFile(node, '');
    await mounts.mount({ source: volume.devicePath, target, filesystem: 'ext4', options: [] }, signal);
    await assert.rejects(pool.snapshot('mounted', wanted, signal), refusal);
    await mounts.bind({ source: devicePath, target: node, readOnly: false }, signal);
    await assert.rejects(pool.snapshot('data', wanted, signal), refusal);
    assert.deepEqual(await drafts(), []);

    await writeFile(join(target, 'file'), 'kept');
    for (const mounted of [target, node]) await mounts.unmount(mounted, signal);
    const copy = await pool.snapshot('mounted', wanted, signal);
    await mounts.mount({ source: copy.devicePath, target, filesystem: 'ext4', options: [] }, signal);
    assert.equal(await readFile(join(target, 'file'), 'utf8'), 'kept');
    assert.ok((await readdir(path)).includes('copy.img'));
  },
);

test('a copy is aborted if its source is written to meanwhile', native, async (t) => {
  const { pool, devicePath, drafts, meanwhile } = await poolOnExt4(t);
  for (const flush of [true, false]) {
    meanwhile(() => {
      const device = openSync(devicePath, 'r+');
      writeSync(device, flush ? 'one' : 'two');
      if (flush) fsyncSync(device);
      closeSync(device);
    });
    await assert.rejects(pool.snapshot('data', wanted, signal), { name: 'CopyNeedsRest' });
    assert.deepEqual(await drafts(), []);
  }
  const copy = await pool.snapshot('data', wanted, signal);
  assert.equal(await checksum(copy.devicePath), await checksum(devicePath));
});

test('a copy continues after its caller leaves, reports its progress, and is found by a retry', native, async (t) => {
  const { pool, meanwhile } = await poolOnExt4(t);
  const impatient = new AbortController();
  const others: Promise<void>[] = [];
  meanwhile(() => {
    impatient.abort();
    others.push(
      assert.rejects(pool.remove('data', signal), { name: 'VolumeBeingCopied' }),
      assert.rejects(pool.create({ id: 'copy', sizeBytes, tags: [] }, signal), { name: 'NameTaken' }),
    );
  });
  await assert.rejects(pool.snapshot('data', wanted, impatient.signal), {
    name: 'CopyInProgress',
    message: /volume data is being copied into copy, \d+ MiB of 32 MiB so far/,
  });
  assert.equal((await pool.snapshot('data', wanted, signal)).id, 'copy');
  await Promise.all(others);
});

test('a copy that is removed, or whose pool stops, ends at once and leaves nothing behind', native, async (t) => {
  const { pool, open, drafts, meanwhile } = await poolOnExt4(t);
  let removed: Promise<Removal> | undefined;
  meanwhile(() => void (removed = pool.remove('copy', signal)));
  await assert.rejects(pool.snapshot('data', wanted, signal), { name: 'CopyCancelled', code: 'Aborted' });
  assert.equal(await removed, 'removed');
  assert.deepEqual(await drafts(), []);

  let restarted: ReturnType<typeof open> | undefined;
  meanwhile(() => void (restarted = open()));
  await assert.rejects(pool.snapshot('data', wanted, signal), { name: 'CopyCancelled' });
  const next = await restarted;
  assert.equal(next?.get('copy'), undefined);
  assert.deepEqual(await drafts(), []);
  assert.ok(await next?.snapshot('data', wanted, signal));
});

test('a class that erases volumes also erases unfinished copies', native, async (t) => {
  const { path, pool, open, meanwhile } = await poolOnExt4(t, { erase: { kind: 'zero' } });
  let removed: Promise<Removal> | undefined;
  let erased: readonly string[] = [];
  meanwhile(() => void (removed = pool.remove('copy', signal)));
  pool.onChange(() => void (erased = [...erased, ...pool.erasures().map(({ id }) => id)]));
  await assert.rejects(pool.snapshot('data', wanted, signal), { name: 'CopyCancelled' });
  assert.equal(await removed, 'erased');
  assert.ok(erased.includes('copy'));

  await sh(`head -c 1M /dev/urandom >${path}/half.img.new`); // as a crash leaves it
  const next = await open();
  await assert.rejects(next.create({ id: 'half', sizeBytes, tags: [] }, signal), { name: 'VolumeBeingErased' });
  await eventually('the copy is gone', async () => !(await readdir(path)).some((name) => name.startsWith('half')));
});
