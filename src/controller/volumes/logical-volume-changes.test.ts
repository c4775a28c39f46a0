import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logicalVolumes } from '../../api/logical-volume.ts';
import { answering, grown } from '../testing/in-memory-cluster.ts';
import { gibi, never, noCopies, storeOf, wanted } from '../testing/in-memory-store.ts';
import { LogicalVolumeObjects } from './logical-volume-objects.ts';
import { LogicalVolumeStore } from './logical-volume-store.ts';

test('growing is one PATCH and returns when the node has grown the volume', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  api.calls.length = 0;
  assert.equal((await store.grow(id, 2n * gibi, never)).sizeBytes, 2n * gibi);
  assert.deepEqual(api.calls, ['patch pvc-a', 'patch pvc-a/status']);
  const { spec, metadata } = (await api.get(logicalVolumes, 'pvc-a')) ?? {};
  assert.equal(spec?.size, '2Gi');
  assert.match(metadata?.annotations?.['topolvm.io/resize-requested-at'] ?? '', /^\d{4}-\d\d-\d\d [\d:.]+ \+0000 UTC$/);

  api.calls.length = 0;
  assert.equal((await store.grow(id, gibi, never)).sizeBytes, 2n * gibi, 'large enough already');
  assert.deepEqual(api.calls, []);
});

test('a growth that the node refuses fails at once and can be requested again', async (t) => {
  const { cluster, clock, store } = storeOf(t);
  let full = true;
  cluster.nodesAnswer({
    toGrowth: (volume) =>
      full ? { ...volume.status, ...answering(volume), code: 8, message: 'ssd is full' } : grown(volume),
  });
  const { id } = await store.create(wanted, never);
  const refusal = { code: 'ResourceExhausted', message: 'node a: ssd is full' };
  await assert.rejects(store.grow(id, 9n * gibi, never), refusal);
  clock.advance(1);
  await assert.rejects(store.grow(id, 9n * gibi, never), refusal, 'the same request');
  clock.advance(1);
  await assert.rejects(store.grow(id, 8n * gibi, never), refusal, 'a smaller one');

  full = false;
  clock.advance(1);
  assert.equal((await store.grow(id, 2n * gibi, never)).sizeBytes, 2n * gibi);
});

test('a late answer to an earlier growth is not taken for the answer to this one', async (t) => {
  const { cluster, clock, api, store } = storeOf(t);
  let full = true;
  cluster.nodesAnswer({
    toGrowth: (volume) =>
      full ? { ...volume.status, ...answering(volume), code: 8, message: 'ssd is full' } : grown(volume),
  });
  const { id } = await store.create(wanted, never);
  await assert.rejects(store.grow(id, 2n * gibi, never), { code: 'ResourceExhausted' });

  full = false;
  clock.advance(1);
  const { watched } = cluster;
  const late = watched.get('pvc-a');
  const objects = new LogicalVolumeObjects({
    client: api.client,
    watched: {
      get: (name) => watched.get(name),
      list: () => watched.list(),
      whenSynced: (signal) => watched.whenSynced(signal),
      until: async (name, predicate, signal) => (predicate(late) ? late : watched.until(name, predicate, signal)),
    },
  });
  const { sizeBytes } = await new LogicalVolumeStore({ objects, copies: noCopies, clock }).grow(id, 2n * gibi, never);
  assert.equal(sizeBytes, 2n * gibi);
});

test('a refused growth is withdrawn by a request for the current size', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({
    toGrowth: (volume) => ({ ...volume.status, ...answering(volume), code: 8, message: 'ssd is full' }),
  });
  const { id } = await store.create(wanted, never);
  await assert.rejects(store.grow(id, 9n * gibi, never));
  assert.equal((await store.grow(id, gibi, never)).sizeBytes, gibi);
  assert.equal((await api.get(logicalVolumes, 'pvc-a'))?.spec.size, '1Gi', 'otherwise the node would grow it later');
});

test('a growth that times out continues, and the next call only waits for it', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer({ toGrowth: () => undefined });
  const { id } = await store.create(wanted, never);
  const deadline = new AbortController();
  cluster.watched.onChange(({ object }) => object.spec.size === '2Gi' && deadline.abort());
  await assert.rejects(store.grow(id, 2n * gibi, deadline.signal), {
    code: 'DeadlineExceeded',
    message: /^node a did not grow volume pvc-a to 2Gi in time; retry/,
  });

  api.calls.length = 0;
  const again = store.grow(id, 2n * gibi, never);
  const body = { status: { currentSize: '2Gi' } };
  await api.patch(logicalVolumes, 'pvc-a', { type: 'merge', body }, { subresource: 'status' });
  assert.equal((await again).sizeBytes, 2n * gibi);
  assert.deepEqual(api.calls, ['patch pvc-a/status'], 'nothing was requested again');
});

test('only a volume can grow or be modified', async (t) => {
  const { store } = storeOf(t);
  await assert.rejects(store.grow('uid-9', gibi, never), { code: 'NotFound', message: /^there is no volume uid-9/ });
  await assert.rejects(store.modify('uid-9', {}, never), { code: 'NotFound' });
});

test('new limits replace all old ones', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create({ ...wanted, limits: { readBytesPerSecond: 7n } }, never);
  await store.modify(id, { writeOperationsPerSecond: 5n }, never);
  assert.deepEqual((await api.get(logicalVolumes, 'pvc-a'))?.metadata.annotations, {
    'moorage.dev/claim': 'shop/db',
    'moorage.dev/write-operations-per-second': '5',
  });
});

test('removing returns when the object is gone', async (t) => {
  const { cluster, api, store } = storeOf(t);
  cluster.nodesAnswer();
  const { id } = await store.create(wanted, never);
  await store.remove(id, never);
  assert.equal(await api.get(logicalVolumes, 'pvc-a'), undefined);
  await store.remove(id, never);
});

test('a removal that the node refuses fails at once, with the reason', async (t) => {
  const { cluster, store } = storeOf(t);
  cluster.nodesAnswer({
    toRemoval: ({ status }) => ({ ...status, code: 9, message: 'it has the snapshots s; remove them first' }),
  });
  const { id } = await store.create(wanted, never);
  const refusal = { code: 'FailedPrecondition', message: 'node a: it has the snapshots s; remove them first' };
  await assert.rejects(store.remove(id, never), refusal);
  await assert.rejects(store.remove(id, never), refusal, 'the same answer to a repeated call');
});

test('a removal that times out reports the last known reason', async (t) => {
  const { cluster, clock, store } = storeOf(t);
  const noRoom = { code: 8, message: 'no space to grow' };
  cluster.nodesAnswer({
    toGrowth: (volume) => ({ ...volume.status, ...answering(volume), ...noRoom }),
    toRemoval: () => undefined,
  });
  const { id } = await store.create(wanted, never);
  clock.advance(1);
  await assert.rejects(store.grow(id, 2n * gibi, never), { code: 'ResourceExhausted' });

  const deadline = new AbortController();
  cluster.watched.onChange(({ object }) => object.metadata.deletionTimestamp && deadline.abort());
  await assert.rejects(store.remove(id, deadline.signal), {
    code: 'DeadlineExceeded',
    message: /did not remove volume pvc-a in time/,
  });
});
