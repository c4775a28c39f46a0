import assert from 'node:assert/strict';
import { open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Run } from '../../src/base/exec.ts';
import type { ErasePolicy } from '../../src/engine/config/device-classes.ts';
import { Eraser } from '../../src/engine/erase/eraser.ts';
import { emptyingTag, encryptedTag } from '../../src/engine/names-and-tags.ts';
import { run } from '../../worlds/host/processes.ts';
import { flushesOf } from '../../worlds/lvm/flushes-of.ts';
import { foundOnDevice } from '../../worlds/lvm/found-on-device.ts';
import { openFilePool, scratchFilesystem, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;
const secret = 'moorage-secret';
const shred: ErasePolicy = { kind: 'shred', passes: 2 };

/** Whether the text can still be found on the disk below a mounted filesystem. */
async function onDisk(path: string, text = secret): Promise<boolean> {
  const disk = await sh(`sync; findmnt --noheadings --output SOURCE --target ${path}`);
  await sh(`blockdev --flushbufs ${disk}`);
  return foundOnDevice(disk, text);
}

async function volumeWithSecret(path: string, erase: ErasePolicy, runs: Run = run) {
  const pool = await openFilePool(path, { erase, runs });
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 100n * mebibyte, tags: [] }, signal);
  for (const at of [0, 50, 99]) {
    await sh(`printf ${secret} | dd of=${devicePath} bs=1M seek=${at} conv=fsync status=none`);
  }
  assert.ok(await onDisk(path));
  return pool;
}

for (const filesystem of ['ext4', 'xfs']) {
  for (const erase of [{ kind: 'zero' }, shred] as const) {
    test(`on ${filesystem}, ${erase.kind} leaves nothing on the disk`, native, async (t) => {
      const path = await scratchFilesystem(t, filesystem, 320);
      const pool = await volumeWithSecret(path, erase);
      assert.equal(await pool.remove('data', signal), 'erased');
      assert.deepEqual([pool.list(), pool.erasures()], [[], []]);
      await assert.rejects(stat(join(path, 'data.img')), { code: 'ENOENT' });
      assert.equal(await onDisk(path), false);
    });
  }
}

test('none leaves the data on the disk, so the test above can detect it', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4', 320);
  const pool = await volumeWithSecret(path, { kind: 'none' });
  assert.equal(await pool.remove('data', signal), 'removed');
  assert.equal(await onDisk(path), true);
});

test("a volume's own policy comes before that of its class", native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4', 320);
  const pool = await volumeWithSecret(path, { kind: 'none' });
  await pool.addTags('data', ['moorage.dev/on-removal=zero'], signal);
  assert.equal(await pool.remove('data', signal), 'erased');
  assert.equal(await onDisk(path), false);
});

test('the header of an encrypted volume is overwritten even with none', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4', 320);
  const pool = await openFilePool(path, { erase: { kind: 'none' } });
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 32n * mebibyte, tags: [] }, signal);
  await pool.addTags('data', [encryptedTag], signal);
  const written = { first: 0, last: 15, data: 16 };
  for (const [where, at] of Object.entries(written)) {
    await sh(`printf moorage-${where} | dd of=${devicePath} bs=1M seek=${at} conv=fsync status=none`);
  }
  const left = async () => {
    const found = await Promise.all(Object.keys(written).map((where) => onDisk(path, `moorage-${where}`)));
    return Object.keys(written).filter((_, index) => found[index]);
  };
  assert.deepEqual(await left(), ['first', 'last', 'data']);
  assert.equal(await pool.remove('data', signal), 'removed');
  assert.deepEqual(await left(), ['data'], 'which could be read only with the keys');
});

test('a range of a file counts as clean only after its disk was flushed', native, async (t) => {
  const directory = await scratchFilesystem(t, 'xfs', 320);
  const disk = await sh(`findmnt --noheadings --output SOURCE --target ${directory}`);
  const path = join(directory, 'data.img');
  await sh(`dd if=/dev/urandom of=${path} bs=1M count=8 conv=fsync status=none`);
  let flushesBefore = Number.POSITIVE_INFINITY;
  const counting: Run = async (argv, options) => {
    const done = await run(argv, options);
    flushesBefore = await flushesOf(disk);
    return done;
  };
  const wasFlushed: boolean[] = [];
  const target = { kind: 'file', path, sizeBytes: 8n * mebibyte, mustBeSame: async () => undefined } as const;
  const onClean = async () => void wasFlushed.push((await flushesOf(disk)) > flushesBefore);
  await new Eraser(counting).erase(target, { kind: 'discard' }, 0n, onClean, signal);
  assert.deepEqual(wasFlushed, [true]);
});

test('discard frees the blocks before the file is removed', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs', 320);
  const commands: string[] = [];
  const recorded: Run = (command, options) => {
    commands.push(command.slice(0, 2).join(' '));
    return run(command, options);
  };
  const pool = await volumeWithSecret(path, { kind: 'discard' }, recorded);
  await pool.remove('data', signal);
  assert.ok(commands.includes('fallocate --punch-hole'));
  assert.deepEqual(pool.list(), []);
});

test(
  'a volume being erased is not listed but keeps its space, and the erasure continues after a crash and can be awaited',
  native,
  async (t) => {
    const path = await scratchFilesystem(t, 'ext4', 320);
    const started = Promise.withResolvers<void>();
    const dies = Promise.withResolvers<never>();
    dies.promise.catch(() => undefined);
    /** A process that dies after it has discarded one range. */
    const dying: Run = async (command, options) => {
      if (command[1] !== '--punch-hole') return run(command, options);
      if (command[3] !== '0') await dies.promise;
      const output = await run(command, options);
      started.resolve();
      return output;
    };
    const first = await volumeWithSecret(path, shred, dying);
    const { freeBytes } = first.capacity();
    const leaving = new AbortController();
    const removal = first.remove('data', leaving.signal);
    await started.promise;
    leaving.abort(new Error('left'));
    await assert.rejects(removal, /left/);
    assert.deepEqual([first.list(), first.get('data')], [[], undefined]);
    assert.ok(first.capacity().freeBytes <= freeBytes + 64n * mebibyte, 'only clean space is reused');
    for (const attempt of [
      () => first.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal),
      () => first.grow('data', 110n * mebibyte, signal),
      () => first.snapshot('data', { id: 'copy', tags: [], access: 'rw' }, signal),
    ]) {
      await assert.rejects(attempt(), { name: 'VolumeBeingErased' });
    }
    dies.reject(new Error('killed'));
    await first.stop(0);

    const label = await readFile(join(path, 'data.json'), 'utf8');
    assert.ok(label.includes(`moorage.dev/erased=${64n * mebibyte}`), label);
    const restarted = await openFilePool(path, { erase: { kind: 'none' } }); // the marked volume must still be erased
    assert.deepEqual(restarted.list(), []);
    const [erasure] = restarted.erasures();
    assert.equal(erasure?.totalBytes, 3n * 100n * mebibyte);
    assert.ok(erasure.doneBytes >= 3n * 64n * mebibyte);
    await restarted.remove('data', signal); // joins
    assert.deepEqual(restarted.erasures(), []);
    assert.equal(await onDisk(path), false);
  },
);

test('concurrent calls remove a volume once, and all wait for the end', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4', 320);
  const pool = await volumeWithSecret(path, { kind: 'zero' });
  await Promise.all([1, 2, 3].map(() => pool.remove('data', signal)));
  assert.equal(await onDisk(path), false);
  assert.deepEqual(pool.erasures(), []);
});

test('a volume in use is rejected before it is marked', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4', 320);
  const pool = await openFilePool(path, { erase: shred });
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal);
  {
    await using _ = await open(devicePath, 'r');
    await assert.rejects(pool.remove('data', signal), { name: 'VolumeInUse' });
  }
  assert.ok(pool.get('data'));
  assert.deepEqual((await openFilePool(path)).erasures(), []);
});

test('blocks shared with a copy keep their data until the copy is erased too', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs', 320);
  const pool = await volumeWithSecret(path, { kind: 'zero' });
  const copy = await pool.snapshot('data', { id: 'copy', tags: [], access: 'ro' }, signal);
  await pool.remove('data', signal);
  assert.equal(await sh(`head -c ${secret.length} ${copy.devicePath}`), secret);
  await pool.remove('copy', signal);
  assert.equal(await onDisk(path), false);
});

test(
  'an emptied volume keeps its space and its owner, and reads as zeros, even if a crash interrupts it',
  native,
  async (t) => {
    const path = await scratchFilesystem(t, 'ext4', 320);
    const started = Promise.withResolvers<void>();
    const dies = Promise.withResolvers<never>();
    dies.promise.catch(() => undefined);
    /** A process that dies after it has freed one range. */
    const dying: Run = async (command, options) => {
      const output = await run(command, options);
      if (command[1] !== '--punch-hole') return output;
      started.resolve();
      return dies.promise;
    };
    const owner = 'moorage.dev/local-pv-uid=1';
    const first = await volumeWithSecret(path, { kind: 'none' }, dying);
    await first.addTags('data', [owner, 'moorage.dev/filesystem=ext4'], signal);
    const emptied = first.empty('data', { kind: 'zero' }, signal);
    await started.promise;
    assert.equal(first.get('data'), undefined);
    const stopped = first.stop(0);
    dies.reject(new Error('killed'));
    await assert.rejects(emptied);
    await stopped;

    assert.match(await readFile(join(path, 'data.json'), 'utf8'), new RegExp(emptyingTag));
    const pool = await openFilePool(path);
    const volume = await pool.empty('data', { kind: 'zero' }, signal);
    assert.deepEqual(volume.tags, [owner, 'moorage.dev/created', 'moorage.dev/unused']);
    assert.equal(await onDisk(path), false);
    await sh(`cmp --bytes=${100n * mebibyte} ${volume.devicePath} /dev/zero`);
    const { blocks } = await stat(join(path, 'data.img'), { bigint: true });
    assert.ok(blocks * 512n >= 100n * mebibyte, 'all of it is allocated');
  },
);

test('a discard that leaves data behind is not enough to empty a volume', native, async (t) => {
  const path = await scratchFilesystem(t, 'ext4', 320);
  const ignoring: Run = async (command, options) =>
    command[1] === '--punch-hole' ? { stdout: '', stderr: '' } : run(command, options);
  const pool = await volumeWithSecret(path, { kind: 'none' }, ignoring);
  const { devicePath } = await pool.empty('data', { kind: 'discard' }, signal);
  await sh(`cmp --bytes=${100n * mebibyte} ${devicePath} /dev/zero`);
  {
    await using _ = await open(devicePath, 'r');
    await assert.rejects(pool.empty('data', { kind: 'discard' }, signal), { name: 'VolumeInUse' });
  }
  const copy = await pool.snapshot('data', { id: 'copy', tags: [], access: 'rw' }, signal);
  await assert.rejects(pool.empty(copy.id, { kind: 'zero' }, signal), { name: 'NotToBeEmptied' });
});

test('a class is not served if its data cannot be overwritten in place', native, async (t) => {
  const path = await scratchFilesystem(t, 'btrfs');
  await assert.rejects(openFilePool(path, { erase: shred }), { name: 'EraseUnsupported', message: /btrfs never/ });
  await openFilePool(path, { erase: { kind: 'discard' } });
});
