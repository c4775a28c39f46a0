import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { type TestContext, test } from 'node:test';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { mebibyte, signal } from './lvm-pools.ts';
import { openPool } from './thick-pools.ts';

const newVolume = (id: string) => ({ id, sizeBytes: 4n * mebibyte, tags: [] });

/** A group on two disks, one of which can disappear. */
async function onTwoDisks(t: TestContext) {
  const [first = '', second = ''] = disks();
  const disk = await faults.error(t, second);
  const vg = await volumeGroup(t, { disks: [first, disk.path] });
  await command('lvcreate', '-y', '-n', 'far', '-L', '4m', vg, disk.path); // LVM marks only disks that are in use
  const { pool, engine } = await openPool(t, vg);
  for (const id of ['a', 'b']) await pool.create(newVolume(id), signal);
  const markedMissing = () => command('vgs', '--noheadings', '-o', 'vg_missing_pv_count', vg);
  return { vg, pool, engine, disk, markedMissing };
}

test('a disk that was missing and is back is used again, and our commands do not mark it as missing', async (t) => {
  const { pool, disk, markedMissing } = await onTwoDisks(t);
  await disk.breakNow();
  await pool.refresh(signal);
  await disk.heal();
  await pool.addTags('a', ['hello'], signal);
  await pool.remove('b', signal);
  assert.equal(await markedMissing(), '0');
  await pool.create(newVolume('c'), signal);
});

test('while a disk is missing, changes that would mark it as missing are rejected with the reason', async (t) => {
  const { vg, pool, disk, markedMissing } = await onTwoDisks(t);
  await disk.breakNow(); // without any notification
  const refusal = { name: 'DiskMissing', code: 'Unavailable', message: new RegExp(`${vg}.*a-disk-that-is-missing`) };
  await assert.rejects(pool.addTags('a', ['hello'], signal), refusal);
  await assert.rejects(pool.remove('b', signal), refusal);
  await assert.rejects(pool.create(newVolume('c'), signal), refusal);
  assert.equal(pool.list().length, 3, 'existing volumes are served');
  assert.match(pool.details()?.problem ?? '', refusal.message);
  await disk.heal();
  assert.equal(await markedMissing(), '0');
  await pool.create(newVolume('c'), signal);
  assert.equal(pool.details()?.problem, undefined);
  await pool.remove('b', signal);
  assert.equal(await markedMissing(), '0');
});

test('a disk whose name changed is found, and not marked as missing', async (t) => {
  const { pool, engine, disk, markedMissing } = await onTwoDisks(t);
  const name = basename(disk.path);
  await command('dmsetup', 'rename', name, `${name}other`);
  undoAfter(t, () => command('dmsetup', 'rename', `${name}other`, name));
  await pool.addTags('a', ['hello'], signal);
  await pool.remove('b', signal);
  assert.equal(await markedMissing(), '0');
  assert.equal(engine.groups.counts.shellRestarts, 0);
});
