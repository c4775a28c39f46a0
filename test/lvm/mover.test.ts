import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { RoundKind } from '../../src/engine/changes/change-tracking.ts';
import { filesystemTag, positionKey, receivingKey } from '../../src/engine/names-and-tags.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { Mover } from '../../src/node/mover/mover.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { Engine, mebibyte, signal, thickClass, thinClass } from './lvm-pools.ts';
import { write } from './thin-pools.ts';

const sizeBytes = 48n * mebibyte;
const moveUid = 'b1f6c2d4-0000-4000-8000-000000000001';

/** A thick and a thin pool on a disk. */
async function pools(t: TestContext, disk: string) {
  const vg = await volumeGroup(t, { disks: [disk] });
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '512m', '--poolmetadatasize', '4m', '-n', 'pool', vg);
  const engine = new Engine(t);
  return { vg, thick: await engine.open(thickClass(vg)), thin: await engine.open(thinClass(vg)) };
}

/** Pulls rounds of a volume of one pool into volume `copy` of another. */
async function moveOf(t: TestContext, from: ServedPool, to: ServedPool, volume = 'data') {
  const mover = new Mover({ port: 0, clock: systemClock, log: silentLog });
  undoAfter(t, () => mover.stop());
  const [source, target] = [await newMoveKey(Date.now()), await newMoveKey(Date.now())];
  const tracking = from.trackChanges(volume);
  const tags = () => from.get(volume)?.tags ?? [];
  const { port } = await mover.offer(moveUid, { tracking, tags, own: source, peerCertificate: target.cert });
  const keys = { own: target, peerCertificate: source.cert };
  const pull = (kind: RoundKind) =>
    mover.pull({ moveUid, host: '127.0.0.1', port, ...keys, kind, pool: to, volumeId: 'copy' }, signal);
  return { tracking, pull };
}

const randomAt = (path: string, atMib: number, mib: number) =>
  command('dd', 'if=/dev/urandom', `of=${path}`, 'bs=1M', `seek=${atMib}`, `count=${mib}`, 'conv=notrunc,fsync');

for (const [from, to] of [
  ['thick', 'thin'],
  ['thin', 'thick'],
] as const) {
  test(`a ${from} volume moves into a ${to} one, with its tags, zeros and discards`, async (t) => {
    const [source, target] = [await pools(t, disks()[0] ?? ''), await pools(t, disks()[1] ?? '')];
    const data = await source[from].create({ id: 'data', sizeBytes, tags: [] }, signal);
    await command('blkdiscard', '--zeroout', data.devicePath);
    await randomAt(data.devicePath, 0, 8);
    await source[from].addTags('data', [filesystemTag('ext4')], signal);
    const tags = [`${receivingKey}=${moveUid}`];
    const copy = await target[to].create({ id: 'copy', sizeBytes, tags }, signal);
    if (to === 'thick') await randomAt(copy.devicePath, 0, 48); // as its disk may have it

    const { tracking, pull } = await moveOf(t, source[from], target[to]);
    const first = await pull('next');
    assert.deepEqual([first.changedBytes, first.sentBytes], [Number(sizeBytes), 8 * 1024 ** 2]);
    await command('blkdiscard', '--zeroout', '--offset', '1048576', '--length', '2097152', data.devicePath);
    await write(data.devicePath, 'changed', 40 * 1024 ** 2);
    assert.equal((await pull('next')).sentBytes, 65_536);
    await write(data.devicePath, 'again', 20 * 1024 ** 2);
    await source[from].setAccess('data', 'ro', signal);
    const last = await pull('last');
    assert.equal(last.sentBytes, 65_536);
    await command('cmp', data.devicePath, copy.devicePath);

    await tracking.end(signal);
    assert.ok(target[to].get('copy')?.tags.includes(filesystemTag('ext4')));
    const opened = await target[to].removeTags('copy', [receivingKey, positionKey], signal);
    assert.ok(!opened.tags.some((tag) => tag.includes(receivingKey) || tag.includes(positionKey)));
    if (to === 'thin') {
      const percent = Number(await command('lvs', '--noheadings', '-o', 'data_percent', `${target.vg}/copy`));
      assert.ok(percent < 25, `zeros are not allocated: ${percent} %`);
    }
  });
}

test('a snapshot, and a volume in use, are copied as they are at one moment, into larger volumes', async (t) => {
  const [source, target] = [await pools(t, disks()[0] ?? ''), await pools(t, disks()[1] ?? '')];
  const small = 16n * mebibyte;
  const sumOf = async (path: string) =>
    (await command('sh', '-c', `head -c ${small} ${path} | sha256sum`)).split(' ')[0];
  for (const [from, to] of [
    ['thick', 'thin'],
    ['thin', 'thick'],
  ] as const) {
    const id = `of-${from}`;
    const { devicePath } = await source[from].create({ id, sizeBytes: small, tags: [] }, signal);
    await randomAt(devicePath, 0, 8);
    const expected = await sumOf(devicePath);
    const wanted = { id: 'copy', sizeBytes: 2n * small, tags: [`${receivingKey}=${moveUid}`] };
    const copy = await target[to].create(wanted, signal);
    if (to === 'thick') await randomAt(copy.devicePath, 4, 8); // as its disk may have it

    if (from === 'thin') {
      await source.thin.snapshot(id, { id: 'moment', tags: [], access: 'ro' }, signal);
      await randomAt(devicePath, 2, 1);
    }
    const { tracking, pull } = await moveOf(t, source[from], target[to], from === 'thin' ? 'moment' : id);
    await pull('whole');
    await randomAt(devicePath, 5, 1);
    assert.equal(await sumOf(copy.devicePath), expected, `${from} to ${to}`);
    await tracking.end(signal);
    await target[to].remove('copy', signal);
  }
  assert.doesNotMatch(await command('lvs', '--noheadings', '-o', 'lv_name', source.vg), /checkpoint/);
});

test('a target that is in use is not written to', async (t) => {
  const { thick } = await pools(t, disks()[0] ?? '');
  await thick.create({ id: 'data', sizeBytes, tags: [] }, signal);
  const { devicePath } = await thick.create({ id: 'copy', sizeBytes, tags: [] }, signal);
  await command('mkfs.ext4', '-q', devicePath);
  await command('mkdir', '-p', '/run/in-use');
  await command('mount', devicePath, '/run/in-use');
  undoAfter(t, () => command('umount', '/run/in-use'));
  const { tracking, pull } = await moveOf(t, thick, thick);
  await assert.rejects(pull('next'), { name: 'DiskFailed', message: /EBUSY/ });
  await tracking.end(signal);
});
