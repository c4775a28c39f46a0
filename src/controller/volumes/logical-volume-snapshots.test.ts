import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { logicalVolumes } from '../../api/logical-volume.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import type { WantedVolume } from '../../csi/controller/volume-store.ts';
import { created, InMemoryCluster } from '../testing/in-memory-cluster.ts';
import { noCopies } from '../testing/in-memory-store.ts';
import { LogicalVolumeSnapshots } from './logical-volume-snapshots.ts';
import { LogicalVolumeStore } from './logical-volume-store.ts';

const gibi = 1024n ** 3n;
const wanted: WantedVolume = {
  name: 'pvc-A',
  nodeNames: ['a'],
  deviceClass: 'thin',
  lvcreateOptionClass: 'mirrored',
  isEncrypted: false,
  sizeBytes: gibi,
};
const never = new AbortController().signal;

/** A volume, and a store for its snapshots. */
async function volumeIn(t: TestContext) {
  const cluster = new InMemoryCluster(t);
  const volumes = new LogicalVolumeStore({ objects: cluster.objects, copies: noCopies, clock: new ManualClock() });
  const snapshots = new LogicalVolumeSnapshots(cluster.objects);
  return { cluster, api: cluster.api, volumes, snapshots, create: () => volumes.create(wanted, never) };
}

test('a snapshot is one POST: a read-only copy on the node of its source', async (t) => {
  const { cluster, api, snapshots, create } = await volumeIn(t);
  cluster.nodesAnswer();
  const { id: sourceId } = await create();
  api.calls.length = 0;
  const snapshot = await snapshots.create({ name: 'snapshot-B', sourceId }, never);

  assert.deepEqual(api.calls, ['create snapshot-b', 'patch snapshot-b/status'], 'two writes in all');
  const { id, ...rest } = snapshot;
  assert.deepEqual(rest, {
    name: 'snapshot-B',
    sourceId,
    nodeName: 'a',
    deviceClass: 'thin',
    isEncrypted: false,
    sizeBytes: gibi,
    createdAt: new Date('2026-01-01T00:00:00Z'),
    isReady: true,
  });
  const { spec, metadata } = (await api.get(logicalVolumes, 'snapshot-b')) ?? {};
  const asTopolvm = { nodeName: 'a', size: '1Gi', deviceClass: 'thin', source: 'pvc-A', accessType: 'ro' };
  assert.deepEqual(spec, { name: 'snapshot-B', ...asTopolvm });
  assert.deepEqual(metadata?.annotations, { 'moorage.dev/content-source': `volume/${sourceId}` });
  assert.deepEqual(await snapshots.list(never), [snapshot]);
  assert.deepEqual(await snapshots.find(id, never), snapshot);
});

test('a snapshot of an encrypted volume is known to be encrypted', async (t) => {
  const { cluster, api, volumes, snapshots } = await volumeIn(t);
  cluster.nodesAnswer();
  const source = await volumes.create({ ...wanted, isEncrypted: true }, never);
  assert.equal(source.isEncrypted, true);
  const snapshot = await snapshots.create({ name: 's', sourceId: source.id }, never);
  assert.equal(snapshot.isEncrypted, true);
  const { metadata } = (await api.get(logicalVolumes, 's')) ?? {};
  assert.equal(metadata?.annotations?.['moorage.dev/encryption'], 'luks2');
});

test('a repeated call finds the first snapshot, even if the source has grown since', async (t) => {
  const { cluster, volumes, snapshots, create } = await volumeIn(t);
  cluster.nodesAnswer();
  const { id: sourceId } = await create();
  const first = await snapshots.create({ name: 's', sourceId }, never);
  await volumes.grow(sourceId, 2n * gibi, never);
  assert.deepEqual(await snapshots.create({ name: 's', sourceId }, never), first);
});

test('a name that something else has is refused', async (t) => {
  const { cluster, volumes, snapshots, create } = await volumeIn(t);
  cluster.nodesAnswer();
  const { id: sourceId } = await create();
  const other = await volumes.create({ ...wanted, name: 'other' }, never);
  await snapshots.create({ name: 's', sourceId }, never);
  for (const [name, source, message] of [
    ['s', other.id, /^snapshot s already exists with source uid-1; choose another name/],
    ['other', sourceId, /already exists with the data of a volume/],
    ['S', sourceId, /already exists with name s/],
  ] as const) {
    await assert.rejects(snapshots.create({ name, sourceId: source }, never), { code: 'AlreadyExists', message });
  }
  await assert.rejects(volumes.create({ ...wanted, name: 's' }, never), {
    code: 'AlreadyExists',
    message: /already exists with the data of a snapshot/,
  });
});

test('only a volume can be the source of a snapshot', async (t) => {
  const { cluster, snapshots, create } = await volumeIn(t);
  cluster.nodesAnswer();
  const { id: sourceId } = await create();
  const { id } = await snapshots.create({ name: 's', sourceId }, never);
  for (const wrong of ['uid-9', id]) {
    await assert.rejects(snapshots.create({ name: 't', sourceId: wrong }, never), { code: 'NotFound' });
  }
});

test('a snapshot that the node refuses leaves nothing behind', async (t) => {
  const { cluster, api, snapshots, create } = await volumeIn(t);
  const refusal = { code: 12, message: 'device class thin has no snapshots; use a thin device class' };
  cluster.nodesAnswer({ toRequest: (volume) => (volume.spec.source ? refusal : created(volume)) });
  const { id: sourceId } = await create();
  await assert.rejects(snapshots.create({ name: 's', sourceId }, never), {
    code: 'Unimplemented',
    message: `node a: ${refusal.message}`,
  });
  await cluster.watched.until('s', (current) => current === undefined, never);
  assert.equal(await api.get(logicalVolumes, 's'), undefined);
});

test('a snapshot outlives its source, and removing a snapshot never removes a volume', async (t) => {
  const { cluster, volumes, snapshots, create } = await volumeIn(t);
  cluster.nodesAnswer();
  const { id: sourceId } = await create();
  const { id } = await snapshots.create({ name: 's', sourceId }, never);
  await snapshots.remove(sourceId, never);
  assert.ok(await volumes.find(sourceId, never));
  await volumes.remove(id, never);
  assert.ok(await snapshots.find(id, never));

  await volumes.remove(sourceId, never);
  assert.equal((await snapshots.find(id, never))?.sourceId, sourceId);
  await snapshots.remove(id, never);
  assert.equal(await snapshots.find(id, never), undefined);
  await snapshots.remove(id, never);
});
