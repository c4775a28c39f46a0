import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../base/testing/manual-clock.ts';
import type { WantedVolume } from '../csi/controller/volume-store.ts';
import { Pools } from '../engine/pools.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { RecordedVolumes } from './recorded-volumes.ts';
import { StandaloneSnapshots } from './standalone-snapshots.ts';
import { StandaloneVolumes } from './standalone-volumes.ts';
import { idFor } from './volume-record.ts';

const { signal } = new AbortController();
const gibi = 1024n ** 3n;
const requested: WantedVolume = {
  name: 'data of the shop',
  nodeNames: ['here'],
  deviceClass: '',
  lvcreateOptionClass: '',
  isEncrypted: false,
  sizeBytes: gibi,
};

function machine(disks = [new InMemoryPool('ssd', 10n * gibi), new InMemoryPool('hdd', 10n * gibi)]) {
  const pools = new Pools(disks, 'ssd');
  const recorded = new RecordedVolumes(pools);
  const shared = { nodeName: 'here', pools, recorded, clock: new ManualClock() };
  const [ssd, hdd] = disks as [InMemoryPool, InMemoryPool];
  return { ssd, hdd, disks, pools, volumes: new StandaloneVolumes(shared), snapshots: new StandaloneSnapshots(shared) };
}

test('a repeated request returns the same volume, also after a restart and concurrently', async () => {
  const { volumes, disks, ssd } = machine();
  const [created, again] = await Promise.all([volumes.create(requested, signal), volumes.create(requested, signal)]);
  assert.deepEqual(again, created);
  assert.equal(ssd.list().length, 1);

  const restarted = machine(disks);
  assert.deepEqual(await restarted.volumes.create(requested, signal), created);
  assert.deepEqual(await restarted.volumes.list(), [created]);
  assert.deepEqual(await restarted.volumes.find(created.id), created);
});

test('a different request with the same name is refused, and the error names the existing volume', async () => {
  const { volumes } = machine();
  const { id } = await volumes.create(requested, signal);
  await volumes.grow(id, 2n * gibi, signal);
  await volumes.create(requested, signal); // the requested size counts, not the current one

  const different: Partial<WantedVolume>[] = [
    { sizeBytes: 2n * gibi },
    { deviceClass: 'hdd' },
    { lvcreateOptionClass: 'raid5' },
    { source: { kind: 'volume', id: 'other' } },
  ];
  for (const changes of different) {
    await assert.rejects(volumes.create({ ...requested, ...changes }, signal), {
      code: 'AlreadyExists',
      message: /^data of the shop is volume .* choose another name/,
    });
  }
});

test('a volume is created only on this node', async () => {
  const { volumes } = machine();
  await assert.rejects(volumes.create({ ...requested, nodeNames: ['there'] }, signal), { code: 'ResourceExhausted' });
  await volumes.create({ ...requested, nodeNames: ['there', 'here'] }, signal);
});

test('a snapshot and a restored volume record their source and are in its pool', async () => {
  const { volumes, snapshots, hdd } = machine();
  const source = await volumes.create({ ...requested, deviceClass: 'hdd' }, signal);
  const snapshot = await snapshots.create({ name: 'before the sale', sourceId: source.id }, signal);
  assert.equal(snapshot.sourceId, source.id);
  assert.deepEqual(await snapshots.create({ name: 'before the sale', sourceId: source.id }, signal), snapshot);
  assert.deepEqual(await snapshots.list(), [snapshot]);
  assert.equal(hdd.get(snapshot.id)?.readOnly, true);

  const from = { kind: 'snapshot' as const, id: snapshot.id };
  const restored = await volumes.create({ ...requested, name: 'restored', deviceClass: 'hdd', source: from }, signal);
  assert.deepEqual(restored.source, from);
  assert.equal(hdd.get(restored.id)?.readOnly, false);
  assert.deepEqual((await volumes.list()).map(({ name }) => name).sort(), ['data of the shop', 'restored']);
});

test('a snapshot with a used name or a missing source is refused', async () => {
  const { volumes, snapshots } = machine();
  const one = await volumes.create(requested, signal);
  const other = await volumes.create({ ...requested, name: 'other' }, signal);
  await snapshots.create({ name: 's', sourceId: one.id }, signal);
  await assert.rejects(snapshots.create({ name: 's', sourceId: other.id }, signal), { code: 'AlreadyExists' });
  await assert.rejects(snapshots.create({ name: 't', sourceId: 'nothing' }, signal), { code: 'NotFound' });
  const source = { kind: 'snapshot' as const, id: one.id };
  await assert.rejects(volumes.create({ ...requested, name: 'copy', source }, signal), { code: 'NotFound' });
});

test('a volume is never removed as a snapshot, nor a snapshot as a volume, nor a foreign volume', async () => {
  const { volumes, snapshots, ssd } = machine();
  const volume = await volumes.create(requested, signal);
  const snapshot = await snapshots.create({ name: 's', sourceId: volume.id }, signal);
  const foreign = idFor('volume', 'made by hand under a name like ours');
  await ssd.create({ id: foreign, sizeBytes: gibi, tags: ['backup'] });

  await volumes.remove(snapshot.id, signal);
  await snapshots.remove(volume.id, signal);
  await volumes.remove(foreign, signal);
  await volumes.remove('no-such-volume', signal);
  assert.equal(await volumes.find(foreign), undefined);
  assert.equal(ssd.list().length, 3);

  await snapshots.remove(snapshot.id, signal);
  await volumes.remove(volume.id, signal);
  assert.deepEqual(
    ssd.list().map(({ id }) => id),
    [foreign],
  );
});

test('an unfinished volume after a crash, which no list shows, is removed by its pool', async () => {
  const { volumes, ssd, hdd } = machine();
  const asked: string[] = [];
  for (const pool of [ssd, hdd]) {
    pool.remove = async (id) => {
      asked.push(`${pool.name} ${id}`);
      return 'removed';
    };
  }
  const id = idFor('volume', 'half');
  await volumes.remove(id, signal);
  assert.deepEqual(asked, [`ssd ${id}`, `hdd ${id}`]);

  await volumes.remove('pvc-4711', signal);
  assert.equal(asked.length, 2, 'no volume with a record can have that id');
});

test('a volume that may be on an unavailable disk is not reported as removed', async () => {
  const { volumes, snapshots, pools, ssd, hdd } = machine();
  const volume = await volumes.create({ ...requested, deviceClass: 'hdd' }, signal);
  const isAway = new Map([['hdd', new Error('volume group hdd is not on this node')]]);
  pools.become({ pools: [ssd], defaultClass: 'ssd', unavailable: isAway });
  await assert.rejects(volumes.remove(volume.id, signal), { code: 'Unavailable', message: /hdd/ });
  await assert.rejects(snapshots.remove(idFor('snapshot', 's'), signal), { code: 'Unavailable' });

  pools.become({ pools: [ssd, hdd], defaultClass: 'ssd', unavailable: new Map() });
  await volumes.remove(volume.id, signal);
  assert.deepEqual(hdd.list(), []);
});

test('IO limits are refused', async () => {
  const { volumes } = machine();
  await assert.rejects(volumes.create({ ...requested, limits: { readBytesPerSecond: 1n } }, signal), {
    code: 'InvalidArgument',
  });
  await assert.rejects(volumes.modify('v', {}), { code: 'InvalidArgument' });
});
