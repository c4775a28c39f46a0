import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { exposition } from '../../metrics/metric.ts';
import { Orphans, orphanMetric, podsIn } from './orphans.ts';

const settleMs = 30_000;

function object(uid: string, volumeID?: string): StoredLogicalVolume {
  const metadata = { name: `pvc-${uid}`, uid, resourceVersion: '1', creationTimestamp: '' };
  return { metadata, spec: { name: 'n', nodeName: 'a', size: 1 }, ...(volumeID && { status: { volumeID } }) };
}

async function poolWith(name: string, volumes: Readonly<Record<string, readonly string[]>>): Promise<InMemoryPool> {
  const pool = new InMemoryPool(name, 1000n);
  for (const [id, tags] of Object.entries(volumes)) await pool.create({ id, sizeBytes: 1n, tags });
  return pool;
}

const without = { objects: [], staticUids: undefined, pods: undefined };
const names = ({ orphans }: ReturnType<Orphans['find']>) => orphans.map(({ volume }) => volume.id);

test('a volume is an orphan once it has been without an object for the whole interval', async () => {
  const pools = new Pools([await poolWith('ssd', { lost: [] })]);
  const orphans = new Orphans(settleMs);
  assert.deepEqual(orphans.find(pools, without, 0), { orphans: [], nextInMs: settleMs, dependsOnPods: false });
  assert.deepEqual(orphans.find(pools, without, 10_000), { orphans: [], nextInMs: 20_000, dependsOnPods: false });
  const found = orphans.find(pools, without, 30_000);
  assert.deepEqual([names(found), found.nextInMs], [['lost'], undefined]);
  assert.deepEqual(found.orphans[0]?.place, { deviceClass: 'ssd' });
});

test('a volume that gets an object in between starts over', async () => {
  const pools = new Pools([await poolWith('ssd', { u1: [] })]);
  const orphans = new Orphans(settleMs);
  orphans.find(pools, without, 0);
  assert.equal(orphans.find(pools, { ...without, objects: [object('u1')] }, 20_000).nextInMs, undefined);
  assert.deepEqual(orphans.find(pools, without, 40_000), { orphans: [], nextInMs: settleMs, dependsOnPods: false });
});

test('the volume of an object is known by its volume ID, and before it is set by the uid', async () => {
  const pools = new Pools([await poolWith('ssd', { u1: [], adopted: [] })]);
  const orphans = new Orphans(0);
  assert.deepEqual(names(orphans.find(pools, { ...without, objects: [object('u1'), object('u2', 'adopted')] }, 0)), []);
  assert.deepEqual(names(orphans.find(pools, { ...without, objects: [object('u2', 'adopted')] }, 0)), ['u1']);
});

test('a static volume is an orphan once its PersistentVolume, known by its uid, is gone', async () => {
  const tags = (uid: string) => ['moorage.dev/local-pv=db', `moorage.dev/local-pv-uid=${uid}`];
  const pools = new Pools([await poolWith('ssd', { db: tags('u1'), old: tags('u0') })]);
  const orphans = new Orphans(0);
  assert.deepEqual(names(orphans.find(pools, { ...without, staticUids: new Set(['u1']) }, 0)), ['old']);
  assert.deepEqual(names(orphans.find(pools, without, 0)), [], 'it is unknown which ones exist');
});

test('an inline volume is an orphan once its pod is known to be gone for the whole interval', async () => {
  const pools = new Pools([await poolWith('ssd', { inline: ['ephemeral', 'moorage.dev/pod=p'], old: ['ephemeral'] })]);
  const orphans = new Orphans(settleMs);
  const unknown = orphans.find(pools, without, 0);
  assert.deepEqual([names(unknown), unknown.nextInMs, unknown.dependsOnPods], [[], undefined, true]);
  assert.deepEqual(names(orphans.find(pools, { ...without, pods: new Set(['p']) }, 600_000)), []);
  const gone = { ...without, pods: new Set(['other']) };
  assert.deepEqual(orphans.find(pools, gone, 1_200_000), { orphans: [], nextInMs: settleMs, dependsOnPods: false });
  assert.deepEqual(names(orphans.find(pools, gone, 1_230_000)), ['inline'], 'one without a pod in its tags never is');
  assert.equal(orphans.found[0]?.sinceMs, 1_200_000);
});

test('pods are unknown if their directory cannot be read', async () => {
  assert.equal(await podsIn('/no/such/directory'), undefined);
  assert.ok((await podsIn(import.meta.dirname))?.has('orphans.ts'));
});

test('the metric counts volumes without an object, of gone pods, and of classes that are not configured', async () => {
  const pool = await poolWith('ssd', { lost: [], gone: ['ephemeral', 'moorage.dev/pod=p'], renamed: [] });
  const pools = new Pools([pool]);
  const of = (uid: string, deviceClass: string, volumeID = uid): StoredLogicalVolume => {
    const { metadata, spec } = object(uid);
    return { metadata, spec: { ...spec, deviceClass }, status: { volumeID } };
  };
  const objects = [of('renamed', 'old'), of('u1', 'old'), of('u2', 'ssd'), of('u3', ''), of('u4', 'old', '')];
  const unserved = { sizeBytes: 1n, tags: ['moorage.dev/created'], readOnly: false, volumeGroup: 'old' };
  pools.foundUnserved([
    { ...unserved, id: 'u1' },
    { ...unserved, id: 'without-object' },
  ]);
  const orphans = new Orphans(0);
  orphans.find(pools, { ...without, objects, pods: new Set() }, 0);
  const text = await exposition([orphanMetric({ nodeName: 'a', orphans, volumes: { list: () => objects }, pools })]);
  assert.deepEqual(
    text.split('\n').filter((line) => line.startsWith('moorage_orphans{')),
    [
      'moorage_orphans{node="a",kind="DiskOnly"} 1',
      'moorage_orphans{node="a",kind="InlineLeftover"} 1',
      'moorage_orphans{node="a",kind="ClassGone"} 2',
    ],
  );
});

test('a volume that two classes of one volume group list is one orphan', async () => {
  const first = await poolWith('ssd', { lost: [] });
  const second = await poolWith('ssd', { lost: [] }); // the same devices
  assert.deepEqual(names(new Orphans(0).find(new Pools([first, second]), without, 0)), ['lost']);
});

test('a volume that no class has is an orphan with its place, unless it has an object', () => {
  const pools = new Pools();
  const unserved = { sizeBytes: 1n, tags: ['moorage.dev/created'], readOnly: false, volumeGroup: 'old' };
  pools.foundUnserved([
    { ...unserved, id: 'u1' },
    { ...unserved, id: 'u2', thinPool: 'pool' },
    { ...unserved, id: 'inline', tags: ['ephemeral', 'moorage.dev/pod=p'] },
  ]);
  const { orphans } = new Orphans(0).find(pools, { ...without, objects: [object('u1')], pods: new Set(['p']) }, 0);
  assert.deepEqual(
    orphans.map(({ volume, place }) => [volume.id, place]),
    [['u2', { volumeGroup: 'old', thinPool: 'pool' }]],
  );
});

test('volumes that Moorage created come first', async () => {
  const pools = new Pools([
    await poolWith('ssd', { root: [], z: ['moorage.dev/created'], b: ['moorage.dev/created'] }),
  ]);
  assert.deepEqual(names(new Orphans(0).find(pools, without, 0)), ['b', 'z', 'root']);
});
