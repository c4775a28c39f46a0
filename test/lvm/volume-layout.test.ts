import assert from 'node:assert/strict';
import { test } from 'node:test';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { mebibyte, signal } from './lvm-pools.ts';
import { actualState, onNewGroup, openPool } from './thick-pools.ts';

test('stripes and spare follow the class', async (t) => {
  const opened = await onNewGroup(t, { stripes: 2, stripeSize: '64k', spareBytes: 100n * mebibyte }, 2);
  const { pool, vg } = opened;
  const { freeBytes } = pool.capacity();
  const created = await pool.create({ id: 'wide', sizeBytes: 12n * mebibyte, tags: [] }, signal);
  assert.equal(created.sizeBytes, 16n * mebibyte);
  assert.equal(pool.capacity().freeBytes, freeBytes - 16n * mebibyte);
  assert.equal(await command('lvs', '--noheadings', '-o', 'stripes,stripe_size', `${vg}/wide`), '2 64.00k');
  await assert.rejects(pool.create({ id: 'all', sizeBytes: freeBytes + 1n, tags: [] }, signal), { name: 'PoolFull' });
  await actualState(opened);
});

test('options of the class reach lvcreate, and the space they take is counted', async (t) => {
  const opened = await onNewGroup(t, { lvcreateOptions: ['--type', 'raid1', '--mirrors', '1', '--nosync'] }, 2);
  const before = opened.pool.capacity().freeBytes;
  await opened.pool.create({ id: 'safe', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  assert.equal(before - opened.pool.capacity().freeBytes, 12n * mebibyte, 'a leg and its state, as of the other');
  await actualState(opened);
});

test('an option class replaces the options of the device class, including the stripe size', async (t) => {
  const opened = await onNewGroup(t, { stripes: 2 }, 2);
  const created = await opened.pool.create(
    { id: 'safe', sizeBytes: 4n * mebibyte, tags: [], optionClass: 'mirrored' },
    signal,
  );
  assert.equal(created.sizeBytes, 4n * mebibyte);
  assert.equal(created.attr.charAt(0), 'R');
  await actualState(opened);
});

test('a mirrored volume that would use the spare is removed again', async (t) => {
  const free = (await onNewGroup(t, {}, 2)).pool.capacity().freeBytes;
  const vg = await volumeGroup(t, { disks: disks().slice(2, 4) });
  const opened = await openPool(t, vg, {
    lvcreateOptions: ['--type', 'raid1', '--nosync'],
    spareBytes: free - 40n * mebibyte,
  });
  await assert.rejects(opened.pool.create({ id: 'big', sizeBytes: 24n * mebibyte, tags: [] }, signal), {
    code: 'ResourceExhausted',
  });
  await opened.pool.create({ id: 'small', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await assert.rejects(opened.pool.grow('small', 20n * mebibyte, signal), { code: 'ResourceExhausted' }); // 24 of 16
  await opened.pool.grow('small', 12n * mebibyte, signal);
  assert.deepEqual(
    opened.pool.list().map(({ id }) => id),
    ['small'],
  );
  await actualState(opened);
});

test('a volume grows with its original stripes, and the cache follows', async (t) => {
  const opened = await onNewGroup(t, {}, 2);
  const { pool } = opened;
  const wide = await pool.create({ id: 'wide', sizeBytes: 8n * mebibyte, tags: [], optionClass: 'wide' }, signal);
  assert.equal((await pool.grow('wide', wide.sizeBytes + 1n, signal)).sizeBytes, 16n * mebibyte);
  await actualState(opened);
});

test('the error says when the free space is on too few disks', async (t) => {
  const opened = await onNewGroup(t, { stripes: 2 }, 2);
  await command('lvcreate', '-y', '-l', '100%PVS', '-n', 'full', opened.vg, disks()[1] ?? '');
  await assert.rejects(opened.pool.create({ id: 'wide', sizeBytes: 8n * mebibyte, tags: [] }, signal), {
    code: 'ResourceExhausted',
    message: /with its mirrors and stripes does not fit on the disks/,
  });
  await actualState(opened);
});

for (const [name, lvcreateOptions, diskCount, ofParts] of [
  ['two mirrors', ['--type', 'raid1', '--nosync'], 2, 1n],
  ['-m1', ['-m1', '--nosync'], 2, 1n],
  ['three mirrors', ['--type=raid1', '--mirrors=2', '--nosync'], 3, 1n],
  ['old mirrors', ['--type', 'mirror', '--mirrors', '1', '--mirrorlog', 'core', '--nosync'], 2, 1n],
  ['parity', ['--type', 'raid5'], 3, 2n],
  ['parity over three', ['--type', 'raid5', '--stripes', '3'], 4, 3n],
  ['mirrored stripes', ['--type', 'raid10', '--nosync'], 4, 2n],
] as const) {
  test(`with ${name}, the capacity of a class is the size of the largest volume it can create`, async (t) => {
    const vg = await volumeGroup(t, { disks: disks().slice(0, diskCount) });
    const { freeBytes } = (await openPool(t, vg)).pool.capacity();
    const partBytes = 20n * 4n * mebibyte;
    const spareBytes = freeBytes - BigInt(diskCount) * partBytes;
    const { pool } = await openPool(t, vg, { lvcreateOptions, spareBytes });
    const largest = ofParts * (partBytes - 4n * mebibyte); // each part has one extent of metadata
    assert.equal(pool.capacity().freeBytes, largest);
    await assert.rejects(pool.create({ id: 'more', sizeBytes: largest + 1n, tags: [] }, signal), { name: 'PoolFull' });
    const created = await pool.create({ id: 'largest', sizeBytes: largest, tags: [] }, signal);
    assert.equal(created.sizeBytes, largest);
    assert.equal(pool.capacity().freeBytes, 0n);
  });
}

test('if options hide what a volume takes, all free space counts, and LVM decides', async (t) => {
  const { pool } = await onNewGroup(t, { lvcreateOptions: ['--typ', 'raid1', '--nosync'] }, 2);
  const { freeBytes, sizeBytes } = pool.capacity();
  assert.equal(freeBytes, sizeBytes);
  await assert.rejects(pool.create({ id: 'more', sizeBytes: freeBytes, tags: [] }, signal), {
    code: 'ResourceExhausted',
  });
});
