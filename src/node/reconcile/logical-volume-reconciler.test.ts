import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { VolumeInactive, VolumeInUse } from '../../engine/errors.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { byDefault, InjectedError, never, reconcilingNode, requested } from '../testing/reconciling-node.ts';
import { volumeWork } from './logical-volume-reconciler.ts';

test('a volume is created with one write, and its tags name its object and its claim', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, requested);
  const volume = await answered();
  assert.deepEqual(volume?.status, { volumeID: 'uid-1', currentSize: '1Ki', code: 0, message: '' });
  assert.deepEqual(ssd.get('uid-1')?.tags, ['moorage.dev/volume=pvc-1', 'moorage.dev/claim=shop/db']);
  await setImmediate();
  assert.deepEqual(api.calls, ['create pvc-1', 'patch pvc-1/status']);
});

test('the target of a move has the tag that keeps it from being used', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  const annotations = { 'moorage.dev/move': 'uid-of-move' };
  await api.create(logicalVolumes, { ...requested, metadata: { ...requested.metadata, annotations } });
  await answered();
  assert.deepEqual(ssd.get('uid-1')?.tags, ['moorage.dev/volume=pvc-1', 'moorage.dev/receiving=uid-of-move']);
});

test('a volume that was created before a crash is found, not created twice', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await ssd.create({ id: 'uid-1', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, requested);
  assert.equal((await answered())?.status?.currentSize, '2Ki');
  assert.equal(ssd.list().length, 1);
});

test('a volume that was created before a crash is found even if the default class has changed', async (t) => {
  const { api, ssd, hdd, answered } = reconcilingNode(t);
  await hdd.create({ id: 'uid-1', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, { ...requested, spec: byDefault });
  assert.equal((await answered())?.status?.currentSize, '2Ki');
  assert.deepEqual(ssd.list(), []);
});

test('a copy that was created before a crash is found even if its source was removed', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await ssd.create({ id: 'uid-1', sizeBytes: 2048n, tags: [] });
  const annotations = { 'moorage.dev/content-source': 'snapshot/gone' };
  const spec: LogicalVolume['spec'] = { ...requested.spec, source: 'snapshot-1', accessType: 'rw' };
  await api.create(logicalVolumes, { ...requested, metadata: { ...requested.metadata, annotations }, spec });
  assert.equal((await answered())?.status?.volumeID, 'uid-1');
});

test('a failure never overwrites an answer that the watch has not delivered yet', async () => {
  const api = new InMemoryApi<LogicalVolume>();
  const ssd = new InMemoryPool('ssd', 4096n);
  const stale = await api.create(logicalVolumes, requested);
  const volumes = { get: () => stale, list: () => [stale], onChange: () => () => undefined };
  const pools = new Pools([ssd], 'ssd');
  const work = volumeWork({ client: api.client, volumes, pools, log: silentLog });
  await work.reconcile('pvc-1', never, (operation) => operation); // the answer is stored, but the watch does not deliver it
  ssd.failure = new InjectedError('an odd disk');
  await assert.rejects(
    work.reconcile('pvc-1', never, (operation) => operation),
    { status: 422 },
  );
  assert.equal((await api.get(logicalVolumes, 'pvc-1'))?.status?.volumeID, 'uid-1');
});

test('a volume that was created without a reported size is measured', async (t) => {
  const { api, hdd, volumes } = reconcilingNode(t);
  await hdd.create({ id: 'old-name', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, { ...requested, status: { volumeID: 'old-name' } });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.currentSize !== undefined, never);
  assert.deepEqual(volume?.status, { volumeID: 'old-name', currentSize: '2Ki' });
});

test('a volume that was created and is missing is never re-created, because it would be empty', async (t) => {
  const { api, clock, ssd } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, status: { volumeID: 'lost' } });
  while (clock.timers === 0) await setImmediate(); // it retries later, in case the disk comes back
  assert.deepEqual(ssd.list(), []);
});

test('a failure is answered with a code and a message, and not retried', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: { ...requested.spec, size: '1Gi' } });
  const volume = await answered();
  assert.equal(volume?.status?.code, 8);
  assert.match(volume.status.message ?? '', /device class ssd has 4 KiB free, 1 GiB requested/);
  assert.equal(ssd.list().length, 0);
});

test('a temporary failure is retried and not written to the status', async (t) => {
  const { api, clock, ssd, answered } = reconcilingNode(t);
  ssd.failure = new InjectedError('TimeoutError');
  await api.create(logicalVolumes, requested);
  while (clock.timers === 0) await setImmediate();
  clock.advance(60_000);
  assert.equal((await answered())?.status?.volumeID, 'uid-1');
});

test('an invalid request is answered with the reason', async (t) => {
  const { api, answered } = reconcilingNode(t);
  const wrong: readonly [string, Partial<LogicalVolume['spec']>, number, RegExp][] = [
    ['class', { deviceClass: 'tape' }, 5, /no device class tape; it has ssd, hdd/],
    ['size', { size: 'much' }, 3, /much/],
    ['copy', { source: 'snapshot-1' }, 5, /no LogicalVolume snapshot-1 to copy/],
  ];
  for (const [name, spec, code, message] of wrong) {
    await api.create(logicalVolumes, {
      metadata: { ...requested.metadata, name },
      spec: { ...requested.spec, ...spec },
    });
    const volume = await answered(name);
    assert.equal(volume?.status?.code, code);
    assert.match(volume.status.message ?? '', message);
  }
});

test('an object without the finalizer gets it before the volume is created', async (t) => {
  const { api, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, metadata: { name: 'pvc-1', finalizers: ['theirs'] } });
  const volume = await answered();
  assert.deepEqual(volume?.metadata.finalizers, ['theirs', 'topolvm.io/logicalvolume']);
  assert.deepEqual(api.calls, ['create pvc-1', 'patch pvc-1', 'patch pvc-1/status']);
});

test('a copy is created in the pool of its source: ro with the size of the source, rw with the requested size', async (t) => {
  const { api, ssd, hdd, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, { ...requested, spec: { ...requested.spec, name: 'PVC-1', deviceClass: 'hdd' } });
  const sourceId = (await answered())?.status?.volumeID;
  const copy = (name: string, spec: Partial<LogicalVolume['spec']>, annotations: Record<string, string> = {}) =>
    api.create(logicalVolumes, {
      metadata: { ...requested.metadata, name, annotations },
      spec: { ...requested.spec, name, source: 'PVC-1', ...spec },
    });

  await copy('snapshot-1', { accessType: 'ro', size: '9Gi' });
  const snapshot = hdd.get((await answered('snapshot-1'))?.status?.volumeID ?? '');
  assert.deepEqual([snapshot?.origin, snapshot?.readOnly, snapshot?.sizeBytes], [sourceId, true, 1024n]);

  await copy('clone', { accessType: 'rw', size: '2Ki' });
  const clone = hdd.get((await answered('clone'))?.status?.volumeID ?? '');
  assert.deepEqual([clone?.origin, clone?.readOnly, clone?.sizeBytes], [sourceId, false, 2048n]);

  const restored = { 'moorage.dev/content-source': `snapshot/${snapshot?.id}` };
  await copy('restored', { accessType: 'rw', source: 'gone-by-now' }, restored);
  assert.equal(hdd.get((await answered('restored'))?.status?.volumeID ?? '')?.origin, snapshot?.id);
  assert.deepEqual(ssd.list(), []);
});

test('the requested lvcreate option class is passed to the pool', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  const create = t.mock.method(ssd, 'create');
  await api.create(logicalVolumes, { ...requested, spec: { ...requested.spec, lvcreateOptionClass: 'raid' } });
  await answered();
  assert.equal(create.mock.calls[0]?.arguments[0].optionClass, 'raid');
});

test('an unfinished copy after a power loss is reported and not retried forever, and can be removed', async (t) => {
  const { api, ssd, answered, gone } = reconcilingNode(t);
  await api.create(logicalVolumes, requested);
  await answered();
  const copy = {
    metadata: { ...requested.metadata, name: 'copy' },
    spec: { ...requested.spec, name: 'copy', source: 'pvc-1' },
  };
  ssd.failure = new VolumeInactive('uid-2', 'its thin pool does not know it');
  await api.create(logicalVolumes, copy);
  assert.equal((await answered('copy'))?.status?.code, 9);
  await api.delete(logicalVolumes, 'copy');
  await gone('copy');
  await api.create(logicalVolumes, copy);
  assert.equal((await answered('copy'))?.status?.code, 0);
});

test('a refused step is retried soon after a pool changes, but not because of its own attempt', async (t) => {
  const { api, clock, ssd, hdd, pools, volumes, gone } = reconcilingNode(t);
  const oneMinute = async () => {
    for (let passedMs = 0; passedMs < 60_000; passedMs += 250) {
      clock.advance(250);
      await setImmediate();
    }
  };

  await ssd.create({ id: 'uid-2', sizeBytes: 1024n, tags: [] });
  const remove = ssd.remove.bind(ssd);
  let tries = 0;
  ssd.remove = async (id) => {
    tries += 1;
    pools.become({ pools: [ssd, hdd], defaultClass: 'ssd', unavailable: new Map() }); // a pool that reads its disks reports a change
    throw new VolumeInUse(id, '/dev/ssd/uid-2');
  };
  const metadata = { name: 'pvc-1', finalizers: ['topolvm.io/logicalvolume'] };
  const spec = { name: 'pvc-1', nodeName: 'a', size: '1Ki' };
  const status = { volumeID: 'uid-2', currentSize: '1Ki' };
  await api.create(logicalVolumes, { metadata, spec, status });
  await api.delete(logicalVolumes, 'pvc-1');
  await volumes.until('pvc-1', (volume) => Boolean(volume?.status?.code), never);
  await oneMinute();
  assert.ok(tries < 20, `${tries} tries in a minute`);

  tries = 0;
  await ssd.create({ id: 'other', sizeBytes: 1024n, tags: [] });
  clock.advance(500);
  await setImmediate();
  assert.equal(tries, 1);

  ssd.remove = remove;
  await ssd.remove('other');
  clock.advance(500);
  await gone();
});

test('two hundred removals that erase for hours do not delay a creation in another class', async (t) => {
  const { api, hdd, volumes } = reconcilingNode(t);
  const erased = Promise.withResolvers<void>();
  let erasing = 0;
  hdd.remove = async () => {
    erasing += 1;
    await erased.promise;
    return 'erased';
  };

  const metadata = (name: string) => ({ name, finalizers: ['topolvm.io/logicalvolume'] });
  const spec = (name: string, deviceClass: string) => ({ name, nodeName: 'a', size: '1', deviceClass });
  const names = Array.from({ length: 200 }, (_, i) => `old-${i}`);
  for (const name of names) {
    const status = { volumeID: name, currentSize: '1' };
    await api.create(logicalVolumes, { metadata: metadata(name), spec: spec(name, 'hdd'), status });
    await api.delete(logicalVolumes, name);
  }
  await api.create(logicalVolumes, { metadata: metadata('new'), spec: spec('new', 'ssd') });
  await volumes.until('new', (volume) => Boolean(volume?.status?.volumeID), never);
  assert.equal(erasing, 200);
  assert.equal(volumes.size, 201, 'none is released before its data is destroyed');

  erased.resolve();
  for (const name of names) await volumes.until(name, (volume) => volume === undefined, never);
});
