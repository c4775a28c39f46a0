import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import type { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { byDefault, InjectedError, never, reconcilingNode, requested, settled } from '../testing/reconciling-node.ts';

/** The next removal is done, but nobody learns that it was. */
function failAfterRemoval(pool: InMemoryPool): void {
  const remove = pool.remove.bind(pool);
  pool.remove = async (id) => {
    await remove(id);
    pool.remove = remove;
    throw new InjectedError('a crash');
  };
}

test('a deleted volume is removed from the disk, then its object', async (t) => {
  const { api, ssd, hdd, answered, gone } = reconcilingNode(t);
  await hdd.create({ id: 'other', sizeBytes: 1n, tags: [] });
  await api.create(logicalVolumes, requested);
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
  assert.equal(ssd.list().length, 0);
  assert.equal(hdd.list().length, 1, 'only the deleted volume is removed');
});

test('that a removal erased the data is recorded before the object is gone, but never keeps it', async (t) => {
  const { api, ssd, volumes, answered, gone } = reconcilingNode(t);
  const seen: unknown[] = [];
  volumes.onChange(({ object }) => void seen.push(object.metadata.annotations?.['moorage.dev/erased']));
  const removed = async (erases: boolean) => {
    ssd.erases = erases;
    await api.create(logicalVolumes, requested);
    await answered();
    seen.length = 0;
    api.calls.length = 0;
    await api.delete(logicalVolumes, 'pvc-1');
    await gone();
    return api.calls.filter((call) => call.startsWith('patch')).length;
  };
  assert.equal(await removed(false), 1);
  assert.ok(!seen.includes('true'));
  assert.equal(await removed(true), 2);
  assert.ok(seen.includes('true'));

  const patch = api.patch.bind(api);
  t.mock.method(api, 'patch', async (...[resource, name, change, options]: Parameters<typeof patch>) => {
    if (JSON.stringify(change).includes('moorage.dev/erased')) throw new Error('forbidden');
    return patch(resource, name, change, options);
  });
  await removed(true);
});

test('a volume is removed from the pool that has it, even if the default class has changed', async (t) => {
  const { api, hdd, answered, gone } = reconcilingNode(t);
  await hdd.create({ id: 'old-name', sizeBytes: 1024n, tags: [] });
  await api.create(logicalVolumes, {
    ...requested,
    spec: byDefault,
    status: { volumeID: 'old-name', currentSize: '1Ki' },
  });
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
  assert.equal(hdd.get('old-name'), undefined);
});

test('a volume whose class was removed is kept, although another class is now the default', async (t) => {
  const { api, clock, ssd, hdd, pools, volumes, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await answered();
  pools.become({ pools: [hdd], defaultClass: 'hdd', unavailable: new Map() });
  await api.delete(logicalVolumes, 'pvc-1');
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 9, never);
  assert.match(
    volume?.status?.message ?? '',
    /no device class that this node serves has volume uid-1, and its class is unknown: add a removed class/,
  );
  await settled();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'the volume is still on the disk');

  pools.become({ pools: [hdd, ssd], defaultClass: 'hdd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('the deletion of a volume in an unavailable class waits for the class, and the status says so', async (t) => {
  const { api, clock, ssd, hdd, pools, volumes, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await answered();
  pools.become({ pools: [hdd], defaultClass: 'ssd', unavailable: new Map([['ssd', new Error('being checked')]]) });
  await api.delete(logicalVolumes, 'pvc-1');
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 9, never);
  assert.match(volume?.status?.message ?? '', /unknown: wait until ssd can be served, add a removed class/);

  pools.become({ pools: [hdd, ssd], defaultClass: 'ssd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('the object of a missing volume is released once an annotation names the class that had it', async (t) => {
  const { api, clock, ssd, volumes, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await answered();
  await ssd.remove('uid-1'); // by hand
  await api.delete(logicalVolumes, 'pvc-1');
  await volumes.until('pvc-1', (current) => current?.status?.code === 9, never);
  const annotations = { 'moorage.dev/held-by': 'ssd' };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body: { metadata: { annotations } } });
  await settled();
  clock.advance(60_000);
  await gone();
});

test('the object of a volume in the default class is released after a crash during its removal', async (t) => {
  const { api, clock, ssd, pools, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await answered();
  failAfterRemoval(ssd);
  await api.delete(logicalVolumes, 'pvc-1');
  while (clock.timers === 0) await setImmediate();
  assert.deepEqual(ssd.list(), []);
  pools.become({ pools: pools.all(), defaultClass: 'hdd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
});

test('a retry whose watch lags behind knows the class that it has recorded', async (t) => {
  const { api, clock, ssd, volumes, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await answered();
  failAfterRemoval(ssd);
  await api.delete(logicalVolumes, 'pvc-1');
  const stale = await volumes.until('pvc-1', (current) => current?.metadata.deletionTimestamp !== undefined, never);
  assert.equal(stale?.metadata.annotations?.['moorage.dev/held-by'], undefined);
  t.mock.method(volumes, 'get', () => stale);
  while (clock.timers === 0) await setImmediate();
  assert.deepEqual(ssd.list(), []);
  clock.advance(60_000);
  await settled();
  assert.equal(await api.get(logicalVolumes, 'pvc-1'), undefined);
});

test('a deletion joins a running erasure, even if the default class has changed', async (t) => {
  const { api, ssd, pools, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await answered();
  await ssd.remove('uid-1');
  ssd.erasing = [{ id: 'uid-1', doneBytes: 0n, totalBytes: 1024n }];
  pools.become({ pools: pools.all(), defaultClass: 'hdd', unavailable: new Map() });
  const over = Promise.withResolvers<void>();
  ssd.remove = () => over.promise.then(() => 'removed');
  await api.delete(logicalVolumes, 'pvc-1');
  await settled();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'the data is still on the disk');
  over.resolve();
  await gone();
});

test('a volume that may be in the default class is kept while any class is unavailable', async (t) => {
  const { api, clock, ssd, hdd, pools, gone } = reconcilingNode(t);
  pools.become({ pools: [hdd], defaultClass: 'hdd', unavailable: new Map([['ssd', new InjectedError('no disk')]]) });
  hdd.failure = new InjectedError('TimeoutError');
  const created = await api.create(logicalVolumes, { ...requested, spec: byDefault });
  await ssd.create({ id: created.metadata.uid, sizeBytes: 1024n, tags: [] });
  await api.delete(logicalVolumes, 'pvc-1');
  await settled();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'the volume is still on the disk');

  pools.become({ pools: [hdd, ssd], defaultClass: 'hdd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('a volume whose class never existed can be deleted', async (t) => {
  const { api, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: { ...requested.spec, deviceClass: 'tape' } });
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
});

test('a volume that was created before a crash is kept while its class is unavailable', async (t) => {
  const { api, clock, ssd, pools, gone } = reconcilingNode(t);
  const classless = { pools: [], defaultClass: 'ssd', unavailable: new Map([['ssd', new InjectedError('no disk')]]) };
  pools.become(classless);
  const created = await api.create(logicalVolumes, requested);
  await ssd.create({ id: created.metadata.uid, sizeBytes: 1024n, tags: [] });
  await api.delete(logicalVolumes, 'pvc-1');
  for (let i = 0; i < 20; i++) await setImmediate();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'the volume is still on the disk');

  pools.become({ pools: [ssd], defaultClass: 'ssd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('a failed removal is reported and retried, and the object is kept', async (t) => {
  const { api, clock, ssd, volumes, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, requested);
  await answered();
  ssd.failure = new InjectedError('a holder of the device');
  await api.delete(logicalVolumes, 'pvc-1');
  const failed = (volume: StoredLogicalVolume | undefined) => volume?.status?.code === 13;
  const volume = await volumes.until('pvc-1', failed, never);
  assert.equal(volume?.status?.message, 'there is a holder of the device');
  assert.equal(volume.status.volumeID, 'uid-1', 'the volume ID is kept');
  while (clock.timers === 0) await setImmediate();
  clock.advance(60_000);
  await gone();
  assert.equal(ssd.list().length, 0);
});

test('an object that the controller released is ignored, and so is its volume', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, requested);
  await answered();
  const annotations = { 'topolvm.io/pendingdeletion': 'true' };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body: { metadata: { annotations } } });
  await api.delete(logicalVolumes, 'pvc-1');
  await setImmediate();
  assert.ok(ssd.get('uid-1'));
  assert.ok(await api.get(logicalVolumes, 'pvc-1'));
});
