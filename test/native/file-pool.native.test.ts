import assert from 'node:assert/strict';
import { chmod, type FileHandle, open, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommandFailed, type Run } from '../../src/base/exec.ts';
import { createdTag } from '../../src/engine/names-and-tags.ts';
import { run } from '../../worlds/host/processes.ts';
import { loopDevicesBelow, openFilePool, scratchDirectory, scratchFilesystem, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;

const sizeOf = async (devicePath: string) => BigInt(await sh(`blockdev --getsize64 ${devicePath}`));

for (const filesystem of ['ext4', 'xfs', 'btrfs']) {
  test(
    `on ${filesystem}, a volume is created, tagged, grown, found after a restart, and removed`,
    native,
    async (t) => {
      const path = await scratchFilesystem(t, filesystem);
      const pool = await openFilePool(path);
      const before = pool.capacity();
      const created = await pool.create({ id: 'data', sizeBytes: 40n * mebibyte + 1n, tags: ['claim=a'] }, signal);
      assert.equal(created.sizeBytes, 40n * mebibyte + 4096n);
      assert.equal(await sizeOf(created.devicePath), created.sizeBytes);
      assert.equal(await sh(`losetup --list --noheadings --output DIO ${created.devicePath}`), '1');
      assert.ok(before.freeBytes - pool.capacity().freeBytes >= 40n * mebibyte, 'the space is reserved at once');

      await pool.addTags('data', ['b', 'claim=a', 'moorage.dev/claim=old/db'], signal);
      await pool.addTags('data', ['moorage.dev/claim=shop/db'], signal);
      const grown = await pool.grow('data', 64n * mebibyte, signal);
      assert.equal(await sizeOf(created.devicePath), 64n * mebibyte);
      assert.deepEqual(grown, {
        ...created,
        sizeBytes: 64n * mebibyte,
        tags: ['claim=a', createdTag, 'b', 'moorage.dev/claim=shop/db'],
      });
      const restarted = await openFilePool(path);
      assert.deepEqual(restarted.list(), [grown]);

      await restarted.remove('data', signal);
      await restarted.remove('data', signal);
      assert.deepEqual(restarted.list(), []);
      assert.deepEqual(await loopDevicesBelow(path), []);
      assert.deepEqual(
        (await readdir(path)).filter((name) => name.startsWith('data')),
        [],
      );
    },
  );
}

test('only root reads volumes and their copies, also those of an earlier version', native, async (t) => {
  const umask = process.umask(0o022);
  t.after(() => process.umask(umask));
  const path = await scratchFilesystem(t, 'xfs');
  const before = await openFilePool(path);
  await before.create({ id: 'old', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await before.stop(0);
  await chmod(path, 0o755);
  for (const name of await readdir(path)) await chmod(join(path, name), 0o644);

  const pool = await openFilePool(path);
  await pool.create({ id: 'new', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await pool.snapshot('new', { id: 'copy', tags: [], access: 'rw' }, signal);
  const { checkpoint } = await pool.trackChanges('new').round('next', {}, signal);

  assert.equal(await sh(`stat --format=%a ${path}`), '700');
  for (const id of ['old', 'new', 'copy']) {
    for (const name of [`${id}.img`, `${id}.json`])
      assert.equal(await sh(`stat --format=%a ${path}/${name}`), '600', name);
  }
  assert.equal(await sh(`stat --format=%a ${path}/new.img.${checkpoint}`), '600');
});

test('a repeated creation returns the same volume and device', native, async (t) => {
  const pool = await openFilePool(await scratchDirectory(t));
  const created = await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  assert.deepEqual(await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal), created);
  await assert.rejects(pool.create({ id: 'data', sizeBytes: 2n * mebibyte, tags: [] }, signal), {
    name: 'VolumeExists',
  });
});

test('a stopping pool waits for running operations, which its successor would clean up', native, async (t) => {
  const path = await scratchDirectory(t);
  const allocating = Promise.withResolvers<void>();
  const proceed = Promise.withResolvers<void>();
  const slow: Run = async (command, options) => {
    if (command[0] !== 'fallocate') return run(command, options);
    allocating.resolve();
    await proceed.promise;
    return run(command, options);
  };
  const pool = await openFilePool(path, { runs: slow });
  const created = pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  await allocating.promise;
  const late = pool
    .stop(0)
    .then(() => assert.rejects(pool.create({ id: 'late', sizeBytes: mebibyte, tags: [] }, signal)));
  const successor = late.then(() => openFilePool(path));
  proceed.resolve();
  await created;
  const { id, sizeBytes } = (await successor).get('data') ?? assert.fail();
  assert.deepEqual([id, sizeBytes], ['data', mebibyte]);
  await (await successor).remove('data', signal);
});

test('a volume works through the page cache if the kernel rejects direct I/O', native, async (t) => {
  const refusing: Run = (command, options) =>
    command[1] === '--direct-io=on'
      ? Promise.reject(
          new CommandFailed(command, { exitCode: 1, signal: null, stdout: '', stderr: 'Invalid argument' }),
        )
      : run(command, options);
  const pool = await openFilePool(await scratchDirectory(t), { runs: refusing });
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  assert.equal(await sizeOf(devicePath), mebibyte);
});

test('volumes have their devices and data again after a reboot', native, async (t) => {
  const path = await scratchDirectory(t);
  const first = await (await openFilePool(path)).create({ id: 'data', sizeBytes: mebibyte, tags: ['a'] }, signal);
  await sh(`printf kept | dd of=${first.devicePath} conv=fsync status=none; losetup -d ${first.devicePath}`);

  const again = (await openFilePool(path)).get('data');
  assert.ok(again);
  assert.deepEqual(again.tags, ['a', createdTag]);
  assert.equal(await sh(`head -c 4 ${again.devicePath}`), 'kept');
});

test('a device that is open for a moment does not block the removal of its volume', native, async (t) => {
  const path = await scratchDirectory(t);
  let looked: FileHandle | undefined;
  let looksLeft = 3;
  const pool = await openFilePool(path, {
    runs: async (command, options) => {
      if (looked && command.includes('--list') && --looksLeft === 0) await looked.close();
      return run(command, options);
    },
  });
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  looked = await open(devicePath);
  assert.equal(await pool.remove('data', signal), 'removed');
  assert.ok(looksLeft <= 0, 'it was open while the device was detached');
});

test('a device that somebody detaches stays with its volume, and no other volume gets it', native, async (t) => {
  const path = await scratchDirectory(t);
  const pool = await openFilePool(path);
  const first = await pool.create({ id: 'first', sizeBytes: mebibyte, tags: [] }, signal);
  await sh(`printf kept | dd of=${first.devicePath} conv=fsync status=none; losetup -d ${first.devicePath}`);
  const second = await pool.create({ id: 'second', sizeBytes: mebibyte, tags: [] }, signal);
  assert.notEqual(second.devicePath, first.devicePath);
  assert.equal(await sh(`head -c 4 ${pool.get('first')?.devicePath}`), 'kept');
  assert.equal(
    (await sh(`losetup --list --noheadings --output BACK-FILE ${first.devicePath}`)).trim(),
    `${path}/first.img`,
  );

  // The kernel only postpones the detach until nobody has it open; a restart attaches it again.
  const restarted = await openFilePool(path);
  assert.equal(await sh(`head -c 4 ${restarted.get('first')?.devicePath}`), 'kept');
  const devices = restarted.list().map(({ devicePath }) => devicePath);
  assert.deepEqual(devices.toSorted(), (await loopDevicesBelow(path)).toSorted());
  assert.equal(new Set(devices).size, 2);
  for (const id of ['first', 'second']) await restarted.remove(id, signal);
  assert.deepEqual(await loopDevicesBelow(path), []);
});

test(
  'files left by a crash during creation do not count as volumes, and the next start removes them',
  native,
  async (t) => {
    const path = await scratchDirectory(t);
    for (const crashAt of ['fallocate', 'losetup']) {
      const crashing: Run = (command, options) =>
        command[0] === crashAt && command[1] !== '--list'
          ? Promise.reject(new Error('power loss'))
          : run(command, options);
      const pool = await openFilePool(path, { runs: crashing });
      await assert.rejects(pool.create({ id: crashAt, sizeBytes: mebibyte, tags: ['a'] }, signal), /power loss/);
    }
    await writeFile(join(path, 'lost.img.new'), 'half made');
    await writeFile(join(path, 'removed.json'), '{"tags":["a"]}\n'); // its image is already gone
    await writeFile(join(path, 'notes.new'), 'of somebody else');
    await writeFile(join(path, 'notes.json'), '{"of": "somebody else"}');

    const pool = await openFilePool(path);
    assert.deepEqual(
      pool.list().map((volume) => volume.id),
      ['losetup'],
    ); // complete, but not attached
    assert.deepEqual((await readdir(path)).sort(), [
      '.moorage-pool',
      'losetup.img',
      'losetup.json',
      'notes.json',
      'notes.new',
    ]);
    for (const id of ['fallocate', 'losetup']) await pool.create({ id, sizeBytes: mebibyte, tags: ['a'] }, signal);
  },
);

test('a growth interrupted by a crash is completed on retry', native, async (t) => {
  const path = await scratchDirectory(t);
  const pool = await openFilePool(path);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  await sh(`fallocate -l 2097152 ${path}/data.img`); // the file has grown, the device has not
  const restarted = await openFilePool(path);
  await restarted.grow('data', 2n * mebibyte, signal);
  assert.equal(await sizeOf(devicePath), 2n * mebibyte);
});

test('the spare is kept free, and a full pool rejects volumes', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4');
  const everything = (await openFilePool(path)).capacity().freeBytes;
  const pool = await openFilePool(path, { spareBytes: everything - 64n * mebibyte });
  assert.equal(pool.capacity().freeBytes, 64n * mebibyte);
  await assert.rejects(pool.create({ id: 'big', sizeBytes: 65n * mebibyte, tags: [] }, signal), { name: 'PoolFull' });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 6 }, (_, i) => pool.create({ id: `v${i}`, sizeBytes: 20n * mebibyte, tags: [] }, signal)),
  );
  assert.equal(outcomes.filter((outcome) => outcome.status === 'fulfilled').length, 3);
});

test('a mounted or open volume is not removed', native, async (t) => {
  const directory = await scratchDirectory(t);
  const pool = await openFilePool(directory);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 16n * mebibyte, tags: [] }, signal);
  await sh(
    `mkfs.ext4 -q ${devicePath}; mkdir ${directory}/m; mount ${devicePath} ${directory}/m; echo kept >${directory}/m/f`,
  );
  await assert.rejects(pool.remove('data', signal), { name: 'VolumeInUse' });
  assert.equal(await readFile(join(directory, 'm/f'), 'utf8'), 'kept\n');
  assert.ok((await stat(join(directory, 'data.img'))).isFile());
  await sh(`umount ${directory}/m`);

  {
    await using _ = await open(devicePath, 'r');
    await assert.rejects(pool.remove('data', signal), { name: 'VolumeInUse' });
    assert.ok((await stat(join(directory, 'data.img'))).isFile());
  }
  await pool.remove('data', signal);
  assert.deepEqual(await loopDevicesBelow(directory), []);
});

test('a volume that cannot be served does not block the others', native, async (t) => {
  const path = await scratchDirectory(t);
  const pool = await openFilePool(path);
  for (const id of ['good', 'bad']) await pool.create({ id, sizeBytes: mebibyte, tags: [] }, signal);
  await writeFile(join(path, 'bad.json'), 'not JSON');
  const restarted = await openFilePool(path);
  assert.deepEqual(
    restarted.list().map((volume) => volume.id),
    ['good'],
  );
  await assert.rejects(restarted.create({ id: 'bad', sizeBytes: mebibyte, tags: [] }, signal), {
    name: 'LabelUnreadable', // and is not created again
    message: /bad.json cannot be read/,
  });
  assert.ok((await stat(join(path, 'bad.img'))).isFile());
});

test('space that a filesystem in a volume discards stays reserved for the volume', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4');
  const pool = await openFilePool(path);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 200n * mebibyte, tags: [] }, signal);
  const before = pool.capacity().freeBytes;
  await sh(`blkdiscard ${devicePath}`);
  await pool.refresh(signal);
  assert.ok(pool.capacity().freeBytes <= before + mebibyte, 'no other volume may use it');
});

test('a missing image does not block other volumes', native, async (t) => {
  const path = await scratchDirectory(t);
  const pool = await openFilePool(path);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  await sh(`losetup -d ${devicePath}; rm ${path}/data.img`);
  await pool.create({ id: 'other', sizeBytes: mebibyte, tags: [] }, signal);
  await pool.refresh(signal);
  assert.equal(pool.get('data'), undefined);
  assert.ok(pool.get('other'));
});

test('the error of a missing directory names it', native, async () => {
  await assert.rejects(openFilePool('/no/such/directory'), { name: 'PoolMissing', message: /\/no\/such\/directory/ });
});
