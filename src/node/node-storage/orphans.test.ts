import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { Orphans } from './orphans.ts';

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

const names = ({ orphans }: ReturnType<Orphans['find']>) => orphans.map(({ volume }) => volume.id);

test('a volume is an orphan once it has been without an object for the whole interval', async () => {
  const pools = [await poolWith('ssd', { lost: [] })];
  const orphans = new Orphans(settleMs);
  assert.deepEqual(orphans.find(pools, [], 0), { orphans: [], nextInMs: settleMs });
  assert.deepEqual(orphans.find(pools, [], 10_000), { orphans: [], nextInMs: 20_000 });
  const found = orphans.find(pools, [], 30_000);
  assert.deepEqual([names(found), found.nextInMs], [['lost'], undefined]);
  assert.equal(found.orphans[0]?.deviceClass, 'ssd');
});

test('a volume that gets an object in between starts over', async () => {
  const pools = [await poolWith('ssd', { u1: [] })];
  const orphans = new Orphans(settleMs);
  orphans.find(pools, [], 0);
  assert.equal(orphans.find(pools, [object('u1')], 20_000).nextInMs, undefined);
  assert.deepEqual(orphans.find(pools, [], 40_000), { orphans: [], nextInMs: settleMs });
});

test('the volume of an object is known by its volume ID, and before it is set by the uid', async () => {
  const pools = [await poolWith('ssd', { u1: [], adopted: [] })];
  const orphans = new Orphans(0);
  assert.deepEqual(names(orphans.find(pools, [object('u1'), object('u2', 'adopted')], 0)), []);
  assert.deepEqual(names(orphans.find(pools, [object('u2', 'adopted')], 0)), ['u1']);
});

test('an inline volume of a pod is no orphan', async () => {
  const pools = [await poolWith('ssd', { inline: ['ephemeral', 'moorage.dev/pod=p'] })];
  assert.deepEqual(names(new Orphans(0).find(pools, [], 0)), []);
});

test('a volume that two classes of one volume group list is one orphan', async () => {
  const first = await poolWith('ssd', { lost: [] });
  const second = await poolWith('ssd', { lost: [] }); // the same devices
  assert.deepEqual(names(new Orphans(0).find([first, second], [], 0)), ['lost']);
});

test('volumes that Moorage created come first', async () => {
  const pools = [await poolWith('ssd', { root: [], z: ['moorage.dev/created'], b: ['moorage.dev/created'] })];
  assert.deepEqual(names(new Orphans(0).find(pools, [], 0)), ['b', 'z', 'root']);
});
