import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';

const [disk = '', otherDisk = ''] = disks();
const block = 4096;

test('a thick volume is created, written, read and removed', async (t) => {
  const group = await volumeGroup(t, { disks: [disk, otherDisk] });
  await command('lvcreate', '-y', '-L', '64m', '-n', 'data', group);
  const device = `/dev/${group}/data`;

  await write(device, 'moored');
  assert.equal(await read(device), 'moored');

  await command('lvremove', '-y', `${group}/data`);
  assert.equal(await command('lvs', '--noheadings', group), '');
  await assert.rejects(read(device), { code: 'ENOENT' });
});

test('everything that a test creates is gone before the next one', async (t) => {
  let group = '';
  await t.test('makes', async (t) => {
    group = await volumeGroup(t, { disks: [disk] });
    assert.equal(await command('vgs', '--noheadings', '-o', 'vg_name'), group);
  });
  assert.equal(await command('vgs', '--noheadings'), '');
  assert.equal(await command('pvs', '--noheadings'), '');
});

test('LVM sees only the disks of the world', async () => {
  const seen = (await command('lvmdiskscan')).match(/\/dev\/\S+/g);
  assert.deepEqual(seen?.sort(), disks().sort());
});

test('a disk with errors fails reads and writes, and works again when healed', async (t) => {
  const faulty = await faults.error(t, disk);
  await write(faulty.path, 'before');

  await faulty.breakNow();
  await assert.rejects(read(faulty.path), { code: 'EIO' });
  await assert.rejects(write(faulty.path, 'during'), { code: 'EIO' });

  await faulty.heal();
  assert.equal(await read(faulty.path), 'before');
});

test('a flakey disk whose writes fail still reads', async (t) => {
  const faulty = await faults.flakey(t, disk, 'fail');
  await write(faulty.path, 'before');

  await faulty.breakNow();
  await assert.rejects(write(faulty.path, 'during'), { code: 'EIO' });
  assert.equal(await read(faulty.path), 'before');
});

test('a flakey disk whose writes are lost claims that they succeed', async (t) => {
  const faulty = await faults.flakey(t, disk, 'are lost');
  await write(faulty.path, 'before');

  await faulty.breakNow();
  await write(faulty.path, 'during');
  await command('blockdev', '--flushbufs', faulty.path); // otherwise the page cache would answer
  assert.equal(await read(faulty.path), 'before');
});

test('a disk with delay delays each read', async (t) => {
  const delayMs = 200;
  const faulty = await faults.delay(t, disk, delayMs);
  await write(faulty.path, 'before');

  await faulty.breakNow();
  await command('blockdev', '--flushbufs', faulty.path);
  const started = performance.now();
  assert.equal(await read(faulty.path), 'before');
  assert.ok(performance.now() - started >= delayMs);
});

test('a volume group on a broken disk is removed after its test too', async (t) => {
  await t.test('breaks', async (t) => {
    const faulty = await faults.error(t, disk);
    const group = await volumeGroup(t, { disks: [faulty.path] });
    await command('lvcreate', '-y', '-L', '64m', '-n', 'data', group);
    await faulty.breakNow();
    await assert.rejects(write(`/dev/${group}/data`, 'during'), { code: 'EIO' });
  });
  assert.equal(await command('dmsetup', 'ls'), 'No devices found');
});

async function write(device: string, text: string): Promise<void> {
  const file = await open(device, 'r+');
  try {
    await file.write(Buffer.alloc(block, text), 0, block, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The text that `write` put at the start of the device. */
async function read(device: string): Promise<string> {
  const file = await open(device, 'r');
  try {
    const { buffer } = await file.read(Buffer.alloc(block), 0, block, 0);
    return /^(moored|before|during)/.exec(buffer.toString())?.[0] ?? '';
  } finally {
    await file.close();
  }
}
