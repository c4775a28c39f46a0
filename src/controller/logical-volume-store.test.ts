import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import type { WantedVolume } from '../csi/volume-store.ts';
import { Informer } from '../kube/informer.ts';
import { InMemoryApi } from '../logical-volume/in-memory-api.ts';
import { type LogicalVolume, type LogicalVolumeStatus, logicalVolumes } from '../logical-volume/logical-volume.ts';
import { LogicalVolumeStore } from './logical-volume-store.ts';

const gibi = 1024n ** 3n;
const wanted: WantedVolume = {
  name: 'pvc-A',
  nodeNames: ['a', 'b'],
  deviceClass: 'ssd',
  lvcreateOptionClass: '',
  sizeBytes: gibi,
  claim: 'shop/db',
};
const never = new AbortController().signal;

function informer(t: TestContext, api: InMemoryApi<LogicalVolume>) {
  const watched = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
  watched.start();
  t.after(() => watched.stop());
  return watched;
}

function storeOf(t: TestContext) {
  const api = new InMemoryApi<LogicalVolume>();
  const watched = informer(t, api);
  return { api, watched, store: new LogicalVolumeStore({ client: api.client, watched }) };
}

/** A node that answers each new volume at once, and lets go of each that is deleted. */
function nodeAnswers(
  { api, watched }: Pick<ReturnType<typeof storeOf>, 'api' | 'watched'>,
  answer: (uid: string) => LogicalVolumeStatus,
) {
  watched.onChange(({ kind, key, object }) => {
    if (kind === 'added') {
      const body = { status: answer(object.metadata.uid) };
      void api.patch(logicalVolumes, key, { type: 'merge', body }, { subresource: 'status' });
    } else if (kind === 'updated' && object.metadata.deletionTimestamp) {
      void api.patch(logicalVolumes, key, { type: 'json', body: [{ op: 'remove', path: '/metadata/finalizers/0' }] });
    }
  });
}

const madeWith = (currentSize: string) => (uid: string) => ({ volumeID: uid, currentSize, code: 0 });

test('a volume is one POST that carries everything the node needs', async (t) => {
  const world = storeOf(t);
  nodeAnswers(world, madeWith('1028Mi'));
  const volume = await world.store.create(wanted, never);

  assert.deepEqual(volume, {
    id: 'uid-1',
    name: 'pvc-A',
    nodeName: 'a',
    deviceClass: 'ssd',
    lvcreateOptionClass: '',
    sizeBytes: 1028n * 1024n ** 2n,
  });
  assert.deepEqual(world.api.calls, ['create pvc-a', 'patch pvc-a/status'], 'two writes in all');
  const object = await world.api.get(logicalVolumes, 'pvc-a');
  assert.deepEqual(object?.spec, { name: 'pvc-A', nodeName: 'a', size: '1Gi', deviceClass: 'ssd' });
  assert.deepEqual(object.metadata.finalizers, ['topolvm.io/logicalvolume']);
  assert.deepEqual(object.metadata.labels, { 'app.kubernetes.io/created-by': 'topolvm-controller' });
  assert.deepEqual(object.metadata.annotations, { 'moorage.dev/claim': 'shop/db' });
});

test('a repeated call finds the volume of the first', async (t) => {
  const world = storeOf(t);
  nodeAnswers(world, madeWith('1Gi'));
  const first = await world.store.create(wanted, never);
  assert.deepEqual(await world.store.create(wanted, never), first);
  const onTheOtherNode = { ...wanted, nodeNames: ['b', 'a'] as const };
  assert.deepEqual(await world.store.create(onTheOtherNode, never), first, 'its node is acceptable too');
});

test('a call whose time is up leaves the wish for the next one', async (t) => {
  const world = storeOf(t);
  const deadline = new AbortController();
  const stopWatching = world.watched.onChange(() => deadline.abort());
  await assert.rejects(world.store.create(wanted, deadline.signal), {
    code: 'DeadlineExceeded',
    message: /^node a has not made volume pvc-a in time; it is safe to call again/,
  });
  stopWatching();

  nodeAnswers(world, madeWith('1Gi'));
  assert.equal((await world.store.create(wanted, never)).id, 'uid-1');
});

test('what differs from the first wish is refused by name', async (t) => {
  const world = storeOf(t);
  nodeAnswers(world, madeWith('1Gi'));
  await world.store.create(wanted, never);
  for (const [different, message] of [
    [{ ...wanted, sizeBytes: 2n * gibi }, /exists already with size 1Gi;/],
    [{ ...wanted, deviceClass: '' }, /exists already with device class ssd;/],
    [{ ...wanted, nodeNames: ['c'] as const }, /exists already with node a;/],
    [{ ...wanted, name: 'PVC-a' }, /exists already with name pvc-A;/],
  ] as const) {
    await assert.rejects(world.store.create(different, never), { code: 'AlreadyExists', message });
  }
});

test("the node's refusal is passed on, and the next call starts afresh", async (t) => {
  const world = storeOf(t);
  let full = true;
  nodeAnswers(world, (uid) => (full ? { code: 8, message: 'ssd is full' } : madeWith('1Gi')(uid)));
  await assert.rejects(world.store.create(wanted, never), {
    code: 'ResourceExhausted',
    message: 'node a: ssd is full',
  });

  full = false;
  const volume = await world.store.create(wanted, never);
  assert.notEqual(volume.id, 'uid-1', 'another object, so another volume');
});

test('a volume that was made is never deleted by a repeated call, whatever befell it later', async (t) => {
  const world = storeOf(t);
  nodeAnswers(world, (uid) => ({ ...madeWith('1Gi')(uid), code: 8, message: 'no room to grow' }));
  const volume = await world.store.create(wanted, never);
  assert.deepEqual(await world.store.create(wanted, never), volume);
  assert.ok(!world.api.calls.includes('delete pvc-a'));
});

test('removing ends when nothing is left', async (t) => {
  const world = storeOf(t);
  nodeAnswers(world, madeWith('1Gi'));
  const { id } = await world.store.create(wanted, never);
  await world.store.remove(id, never);
  assert.equal(await world.api.get(logicalVolumes, 'pvc-a'), undefined);
  await world.store.remove(id, never);
});

test('a volume that the node cannot remove is said to be there still, and why', async (t) => {
  const world = storeOf(t);
  const deadline = new AbortController();
  world.watched.onChange(({ kind, key, object }) => {
    const failed = { status: { ...object.status, code: 13, message: 'the device is in use' } };
    if (kind === 'added') {
      const body = { status: madeWith('1Gi')(object.metadata.uid) };
      void world.api.patch(logicalVolumes, key, { type: 'merge', body });
    } else if (kind === 'updated' && object.status?.code) {
      setImmediate(() => deadline.abort());
    } else if (object.metadata.deletionTimestamp) {
      void world.api.patch(logicalVolumes, key, { type: 'merge', body: failed });
    }
  });
  const { id } = await world.store.create(wanted, never);
  await assert.rejects(world.store.remove(id, deadline.signal), {
    code: 'DeadlineExceeded',
    message: /has not removed volume pvc-a in time: the device is in use;/,
  });
});

test('a volume that the cache does not hold yet is asked for at the API server', async (t) => {
  const api = new InMemoryApi<LogicalVolume>();
  const maker = { api, watched: informer(t, api) };
  nodeAnswers(maker, madeWith('1Gi'));
  const { id } = await new LogicalVolumeStore({ client: api.client, ...maker }).create(wanted, never);

  const another = informer(t, api); // just started: its cache is empty
  const store = new LogicalVolumeStore({ client: api.client, watched: another });
  await store.remove(id, never);
  assert.equal(await api.get(logicalVolumes, 'pvc-a'), undefined);
});
