import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logicalVolumes } from '../../api/logical-volume.ts';
import type { WantedVolume } from '../../csi/controller/volume-store.ts';
import { created } from '../testing/in-memory-cluster.ts';
import { gibi, never, noCopies, storeOf, wanted } from '../testing/in-memory-store.ts';
import { LogicalVolumeStore } from './logical-volume-store.ts';

test('a volume is one POST that carries everything the node needs', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toRequest: (volume) => ({ ...created(volume), currentSize: '1028Mi' }) });
  const limits = { readBytesPerSecond: 7n };
  const volume = await store.create({ ...wanted, lvcreateOptionClass: 'mirrored', limits }, never);

  assert.deepEqual(volume, {
    id: 'uid-1',
    name: 'pvc-A',
    nodeName: 'a',
    deviceClass: 'ssd',
    lvcreateOptionClass: 'mirrored',
    isEncrypted: false,
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

test('a repeated call finds the volume of the first call', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer();
  const first = await store.create(wanted, never);
  assert.deepEqual(await store.create(wanted, never), first);
  const onTheOtherNode = { ...wanted, nodeNames: ['b', 'a'] as const };
  assert.deepEqual(await store.create(onTheOtherNode, never), first, 'its node is acceptable too');
});

test('a call that times out leaves its request for the next one', async (t) => {
  const { cluster, store } = storeOf(t);
  const deadline = new AbortController();
  const stopWatching = cluster.watched.onChange(() => deadline.abort());
  await assert.rejects(store.create(wanted, deadline.signal), {
    code: 'DeadlineExceeded',
    message: /^node a did not create volume pvc-a in time; retry/,
  });
  stopWatching();

  cluster.nodesAnswer();
  assert.equal((await store.create(wanted, never)).id, 'uid-1');
});

test('a request that differs from the first one is refused, with the difference', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  const other = await store.create({ ...wanted, name: 'other' }, never);
  const copy: WantedVolume = { ...wanted, name: 'copy', source: { kind: 'volume', id } };
  await store.create(copy, never);
  for (const [different, message] of [
    [{ ...wanted, sizeBytes: 2n * gibi }, /already exists with size 1Gi;/],
    [{ ...wanted, deviceClass: '' }, /already exists with device class ssd;/],
    [{ ...wanted, isEncrypted: true }, /already exists with encryption none;/],
    [{ ...wanted, nodeNames: ['c'] as const }, /already exists with node a;/],
    [{ ...wanted, name: 'PVC-a' }, /already exists with name pvc-A;/],
    [{ ...wanted, source: { kind: 'volume', id: other.id } }, /already exists with source none;/],
    [{ ...wanted, name: 'copy' }, /already exists with source uid-1;/],
    [{ ...copy, source: { kind: 'volume', id: other.id } }, /already exists with source uid-1;/],
  ] as const) {
    await assert.rejects(store.create(different, never), { code: 'AlreadyExists', message });
  }
});

test("the node's refusal is passed on, and the next call starts over", async (t) => {
  const { cluster, store } = storeOf(t);
  let full = true;
  cluster.nodesAnswer({ toRequest: (volume) => (full ? { code: 8, message: 'ssd is full' } : created(volume)) });
  await assert.rejects(store.create(wanted, never), { code: 'ResourceExhausted', message: 'node a: ssd is full' });

  full = false;
  const volume = await store.create(wanted, never);
  assert.notEqual(volume.id, 'uid-1', 'another object, so another volume');
});

test('an outdated refusal never deletes a volume', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toRequest: () => ({ code: 8, message: 'ssd is full' }) });
  const remove = api.delete.bind(api);
  const deleting = t.mock.method(api, 'delete', async (...args: Parameters<typeof api.delete>) => {
    const [resource, name] = args;
    const { uid } = (await api.get(resource, name))?.metadata ?? {};
    // The node had not seen its refusal yet, and tried again.
    const body = { status: { volumeID: uid, currentSize: '1Gi', code: 0, message: '' } };
    await api.patch(resource, name, { type: 'merge', body }, { subresource: 'status' });
    return remove(...args);
  });
  assert.equal((await store.create(wanted, never)).id, 'uid-1');
  assert.equal(deleting.mock.callCount(), 1);
  assert.ok(await api.get(logicalVolumes, 'pvc-a'));
});

test('a node without the device class makes the scheduler try another node', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer({ toRequest: () => ({ code: 5, message: 'this node has no device class ssd; it has hdd' }) });
  await assert.rejects(store.create(wanted, never), {
    code: 'ResourceExhausted',
    message: /^node a: this node has no device class ssd; it has hdd; correct topolvm.io\/device-class in/,
  });
});

test('an object that is deleted while it is read is not waited for', async (t) => {
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

test('a repeated call never deletes a volume that was created, whatever failed later', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toRequest: (volume) => ({ ...created(volume), code: 8, message: 'no space to grow' }) });
  const volume = await store.create(wanted, never);
  assert.deepEqual(await store.create(wanted, never), volume);
  assert.ok(!api.calls.includes('delete pvc-a'));
});

test('a copy records its source by name for TopoLVM and by ID for later', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  const source = { kind: 'volume', id } as const;
  const copy = await store.create({ ...wanted, name: 'copy', source }, never);
  assert.deepEqual(copy.source, source);
  const { spec } = (await api.get(logicalVolumes, 'copy')) ?? {};
  assert.deepEqual([spec?.source, spec?.accessType], ['pvc-A', 'rw']);

  await store.remove(id, never);
  assert.deepEqual((await store.find(copy.id, never))?.source, source, 'even if the source is gone');
  await assert.rejects(store.create({ ...wanted, name: 'late', source }, never), {
    code: 'NotFound',
    message: /^volume uid-1 was deleted before it was copied; choose/,
  });
});

test('a copy created by TopoLVM knows its source as long as the source exists', async (t) => {
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

test('the list has only created volumes and no snapshots', async (t) => {
  const { cluster, api, store } = storeOf(t);
  const isPending = (name: string) => name === 'pending';
  cluster.nodesAnswer({ toRequest: (volume) => (isPending(volume.metadata.name) ? undefined : created(volume)) });
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
  assert.equal(await store.find('', never), undefined, 'not the one that has no ID yet');
  await store.remove(metadata.uid, never);
  assert.ok(await api.get(logicalVolumes, 's'), 'a snapshot is not removed as a volume');
});

test('a volume that is not in the cache yet is read from the API server', async (t) => {
  const { cluster, clock, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  await store.create({ ...wanted, name: 'other' }, never);

  const another = new LogicalVolumeStore({ objects: cluster.replica().objects, copies: noCopies, clock });
  await another.remove(id, never);
  assert.equal(await api.get(logicalVolumes, 'pvc-a'), undefined);
  assert.ok(await api.get(logicalVolumes, 'other'));
});

test('a volume ID that two objects share is an error, in the cache and on the API server', async (t) => {
  const { cluster, clock, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  await store.create({ ...wanted, name: 'thief', nodeNames: ['b'] }, never);
  const body = { status: { volumeID: id } };
  await api.patch(logicalVolumes, 'thief', { type: 'merge', body }, { subresource: 'status' });
  await cluster.watched.until('thief', (current) => current?.status?.volumeID === id, never);

  const another = new LogicalVolumeStore({ objects: cluster.replica().objects, copies: noCopies, clock });
  for (const replica of [store, another]) {
    const ambiguous = {
      code: 'FailedPrecondition',
      message:
        /^volume ID uid-1 is claimed by several LogicalVolumes: pvc-a on node a, thief on node b; use lvs to find the node/,
    };
    await assert.rejects(replica.find(id, never), ambiguous);
    await assert.rejects(replica.grow(id, 2n * gibi, never), ambiguous);
    await assert.rejects(replica.remove(id, never), ambiguous);
  }
  const copy: WantedVolume = { ...wanted, name: 'copy', source: { kind: 'volume', id } };
  await assert.rejects(store.create(copy, never), { code: 'FailedPrecondition' });
});
