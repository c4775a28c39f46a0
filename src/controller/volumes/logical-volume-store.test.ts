import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logicalVolumes } from '../../api/logical-volume.ts';
import type { WantedVolume } from '../../csi/controller/volume-store.ts';
import { made } from '../testing/in-memory-cluster.ts';
import { gibi, never, storeOf, wanted } from '../testing/in-memory-store.ts';
import { LogicalVolumeStore } from './logical-volume-store.ts';

test('a volume is one POST that carries everything the node needs', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toWish: (volume) => ({ ...made(volume), currentSize: '1028Mi' }) });
  const limits = { readBytesPerSecond: 7n };
  const volume = await store.create({ ...wanted, lvcreateOptionClass: 'mirrored', limits }, never);

  assert.deepEqual(volume, {
    id: 'uid-1',
    name: 'pvc-A',
    nodeName: 'a',
    deviceClass: 'ssd',
    lvcreateOptionClass: 'mirrored',
    sizeBytes: 1028n * 1024n ** 2n,
  });
  assert.deepEqual(api.calls, ['create pvc-a', 'patch pvc-a/status'], 'two writes in all');
  const object = await api.get(logicalVolumes, 'pvc-a');
  const { name, lvcreateOptionClass } = { name: 'pvc-A', lvcreateOptionClass: 'mirrored' };
  assert.deepEqual(object?.spec, { name, nodeName: 'a', size: '1Gi', deviceClass: 'ssd', lvcreateOptionClass });
  assert.deepEqual(object.metadata.finalizers, ['topolvm.io/logicalvolume']);
  assert.deepEqual(object.metadata.labels, { 'app.kubernetes.io/created-by': 'topolvm-controller' });
  assert.deepEqual(object.metadata.annotations, {
    'moorage.dev/claim': 'shop/db',
    'moorage.dev/read-bytes-per-second': '7',
  });
});

test('a repeated call finds the volume of the first', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer();
  const first = await store.create(wanted, never);
  assert.deepEqual(await store.create(wanted, never), first);
  const onTheOtherNode = { ...wanted, nodeNames: ['b', 'a'] as const };
  assert.deepEqual(await store.create(onTheOtherNode, never), first, 'its node is acceptable too');
});

test('a call whose time is up leaves the wish for the next one', async (t) => {
  const { cluster, store } = storeOf(t);
  const deadline = new AbortController();
  const stopWatching = cluster.watched.onChange(() => deadline.abort());
  await assert.rejects(store.create(wanted, deadline.signal), {
    code: 'DeadlineExceeded',
    message: /^node a has not made volume pvc-a in time; it is safe to call again/,
  });
  stopWatching();

  cluster.nodesAnswer();
  assert.equal((await store.create(wanted, never)).id, 'uid-1');
});

test('what differs from the first wish is refused by name', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  const other = await store.create({ ...wanted, name: 'other' }, never);
  const copy: WantedVolume = { ...wanted, name: 'copy', source: { kind: 'volume', id } };
  await store.create(copy, never);
  for (const [different, message] of [
    [{ ...wanted, sizeBytes: 2n * gibi }, /exists already with size 1Gi;/],
    [{ ...wanted, deviceClass: '' }, /exists already with device class ssd;/],
    [{ ...wanted, nodeNames: ['c'] as const }, /exists already with node a;/],
    [{ ...wanted, name: 'PVC-a' }, /exists already with name pvc-A;/],
    [{ ...wanted, source: { kind: 'volume', id: other.id } }, /exists already with content of no other;/],
    [{ ...wanted, name: 'copy' }, /exists already with content of uid-1;/],
    [{ ...copy, source: { kind: 'volume', id: other.id } }, /exists already with content of uid-1;/],
  ] as const) {
    await assert.rejects(store.create(different, never), { code: 'AlreadyExists', message });
  }
});

test("the node's refusal is passed on, and the next call starts afresh", async (t) => {
  const { cluster, store } = storeOf(t);
  let full = true;
  cluster.nodesAnswer({ toWish: (volume) => (full ? { code: 8, message: 'ssd is full' } : made(volume)) });
  await assert.rejects(store.create(wanted, never), { code: 'ResourceExhausted', message: 'node a: ssd is full' });

  full = false;
  const volume = await store.create(wanted, never);
  assert.notEqual(volume.id, 'uid-1', 'another object, so another volume');
});

test('a node without the device class lets the scheduler look for another one', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer({ toWish: () => ({ code: 5, message: 'this node has no device class ssd; it has hdd' }) });
  await assert.rejects(store.create(wanted, never), {
    code: 'ResourceExhausted',
    message: /^node a: this node has no device class ssd; it has hdd; correct topolvm.io\/device-class in/,
  });
});

test('what goes while it is read is not waited for', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toRemoval: () => undefined });
  const { metadata } = await api.create(logicalVolumes, {
    metadata: { name: 'pvc-a', finalizers: ['topolvm.io/logicalvolume'] },
    spec: { name: 'pvc-A', nodeName: 'a', size: '1Gi' },
  });
  await api.delete(logicalVolumes, 'pvc-a');
  await cluster.watched.until('pvc-a', (current) => current?.metadata.deletionTimestamp !== undefined, never);

  const get = api.get.bind(api);
  t.mock.method(api, 'get', async (...[resource, name]: Parameters<typeof api.get>) => {
    const read = await get(resource, name);
    await api.patch(resource, name, { type: 'json', body: [{ op: 'remove', path: '/metadata/finalizers/0' }] });
    await cluster.watched.until(name, (current) => current === undefined, never);
    return read;
  });
  const { id } = await store.create(wanted, never);
  assert.notEqual(id, metadata.uid);
});

test('a volume that was made is never deleted by a repeated call, whatever befell it later', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toWish: (volume) => ({ ...made(volume), code: 8, message: 'no room to grow' }) });
  const volume = await store.create(wanted, never);
  assert.deepEqual(await store.create(wanted, never), volume);
  assert.ok(!api.calls.includes('delete pvc-a'));
});

test('a copy names its source twice: for TopoLVM, and for ever', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  const source = { kind: 'volume', id } as const;
  const copy = await store.create({ ...wanted, name: 'copy', source }, never);
  assert.deepEqual(copy.source, source);
  const { spec } = (await api.get(logicalVolumes, 'copy')) ?? {};
  assert.deepEqual([spec?.source, spec?.accessType], ['pvc-A', 'rw']);

  await store.remove(id, never);
  assert.deepEqual((await store.find(copy.id, never))?.source, source, 'also when it is gone');
  await assert.rejects(store.create({ ...wanted, name: 'late', source }, never), {
    code: 'NotFound',
    message: /^volume uid-1 has gone before it was copied; choose/,
  });
});

test('a copy that TopoLVM made knows its source as long as that is there', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  const spec = { name: 'restored', nodeName: 'a', size: '1Gi', source: 'pvc-A', accessType: 'rw' } as const;
  await api.create(logicalVolumes, { metadata: { name: 'restored' }, spec });
  await cluster.watched.until('restored', (current) => current?.status !== undefined, never);
  const sources = async () => (await store.list(never)).map(({ name, source }) => [name, source]);
  assert.deepEqual(await sources(), [
    ['pvc-A', undefined],
    ['restored', { kind: 'volume', id }],
  ]);
  await store.remove(id, never);
  assert.deepEqual(await sources(), [['restored', undefined]]);
});

test('the list has volumes that are made, and no snapshots', async (t) => {
  const { cluster, api, store } = storeOf(t);
  const isPending = (name: string) => name === 'pending';
  cluster.nodesAnswer({ toWish: (volume) => (isPending(volume.metadata.name) ? undefined : made(volume)) });
  await store.create(wanted, never);
  const spec = { name: 'pending', nodeName: 'a', size: '1Gi' };
  await api.create(logicalVolumes, { metadata: { name: 'pending' }, spec });
  const snapshot = { ...spec, name: 's', source: 'pvc-A', accessType: 'ro' } as const;
  const { metadata } = await api.create(logicalVolumes, { metadata: { name: 's' }, spec: snapshot });
  await cluster.watched.until('s', (current) => current?.status !== undefined, never);

  assert.deepEqual(
    (await store.list(never)).map(({ name }) => name),
    ['pvc-A'],
  );
  assert.equal(await store.find(metadata.uid, never), undefined);
  assert.equal(await store.find('', never), undefined, 'not the one that has no id yet');
  await store.remove(metadata.uid, never);
  assert.ok(await api.get(logicalVolumes, 's'), 'a snapshot is not removed as a volume');
});

test('a volume that the cache does not hold yet is asked for at the API server', async (t) => {
  const { cluster, clock, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  await store.create({ ...wanted, name: 'other' }, never);

  const another = new LogicalVolumeStore({ objects: cluster.replica().objects, clock });
  await another.remove(id, never);
  assert.equal(await api.get(logicalVolumes, 'pvc-a'), undefined);
  assert.ok(await api.get(logicalVolumes, 'other'));
});

test('a volume ID that two objects have stands for neither, in the cache or at the API server', async (t) => {
  const { cluster, clock, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  await store.create({ ...wanted, name: 'thief', nodeNames: ['b'] }, never);
  const body = { status: { volumeID: id } };
  await api.patch(logicalVolumes, 'thief', { type: 'merge', body }, { subresource: 'status' });
  await cluster.watched.until('thief', (current) => current?.status?.volumeID === id, never);

  const another = new LogicalVolumeStore({ objects: cluster.replica().objects, clock });
  for (const replica of [store, another]) {
    const ambiguous = {
      code: 'FailedPrecondition',
      message: /^volume ID uid-1 is claimed by several LogicalVolumes: pvc-a on node a, thief on node b; find out/,
    };
    await assert.rejects(replica.find(id, never), ambiguous);
    await assert.rejects(replica.grow(id, 2n * gibi, never), ambiguous);
    await assert.rejects(replica.remove(id, never), ambiguous);
  }
  const copy: WantedVolume = { ...wanted, name: 'copy', source: { kind: 'volume', id } };
  await assert.rejects(store.create(copy, never), { code: 'FailedPrecondition' });
});
