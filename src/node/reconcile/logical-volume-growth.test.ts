import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import type { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { never, reconcilingNode, requested, settled } from '../testing/reconciling-node.ts';

/** What the controller does to grow a volume. */
async function ask(api: InMemoryApi<LogicalVolume>, size: string, at: string): Promise<void> {
  const body = { metadata: { annotations: { 'topolvm.io/resize-requested-at': at }, generation: at }, spec: { size } };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body });
}

const answers = (at: string) => (volume: StoredLogicalVolume | undefined) => volume?.status?.answeredResize === at;

test('a volume grows with one write, and its status names the answered request', async (t) => {
  const { api, ssd, volumes, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, requested);
  await answered();
  api.calls.length = 0;
  await ask(api, '2Ki', 'noon');
  const volume = await volumes.until('pvc-1', answers('noon'), never);
  const status = { volumeID: 'uid-1', currentSize: '2Ki', code: 0, message: '', answeredResize: 'noon' };
  assert.deepEqual(volume?.status, status);
  assert.equal(ssd.get('uid-1')?.sizeBytes, 2048n);
  assert.deepEqual(api.calls, ['patch pvc-1', 'patch pvc-1/status']);
});

test('a volume that cannot grow reports it at once, keeps its size, and grows when there is space', async (t) => {
  const { api, clock, ssd, volumes, answered } = reconcilingNode(t);
  await ssd.create({ id: 'other', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, requested);
  await answered();
  await ask(api, '3Ki', 'noon');
  const failed = await volumes.until('pvc-1', answers('noon'), never);
  assert.equal(failed?.status?.code, 8);
  assert.equal(failed.status.currentSize, '1Ki');
  assert.equal(failed.status.volumeID, 'uid-1');

  await ask(api, '3Ki', 'one');
  assert.equal((await volumes.until('pvc-1', answers('one'), never))?.status?.code, 8, 'each request is answered');
  api.calls.length = 0;
  await ssd.create({ id: 'small', sizeBytes: 1n, tags: [] });
  clock.advance(500);
  await settled();
  assert.deepEqual(api.calls, [], 'an unchanged failure is not written again');

  await ssd.remove('other');
  clock.advance(500);
  const grown = await volumes.until('pvc-1', (volume) => volume?.status?.code === 0, never);
  assert.equal(grown?.status?.currentSize, '3Ki');
});

test('a withdrawn request to grow leaves no error in the status', async (t) => {
  const { api, volumes, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, requested);
  await answered();
  await ask(api, '1Gi', 'noon');
  await volumes.until('pvc-1', answers('noon'), never);
  await ask(api, '1Ki', 'one');
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 0, never);
  assert.equal(volume?.status?.message, '');
  assert.equal(volume.status.currentSize, '1Ki');
});

test('a volume without a reported size is measured, and grown if a larger size is requested', async (t) => {
  const { api, hdd, volumes } = reconcilingNode(t);
  await hdd.create({ id: 'old-name', sizeBytes: 512n, tags: [] });
  await api.create(logicalVolumes, { ...requested, status: { volumeID: 'old-name' } });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.currentSize === '1Ki', never);
  assert.equal(volume?.status?.volumeID, 'old-name');
});

test('a failure is also written to an object of TopoLVM, which omits zero values', async (t) => {
  const { api, ssd, volumes } = reconcilingNode(t);
  await ssd.create({ id: 'old', sizeBytes: 1024n, tags: [] });
  const status = { volumeID: 'old', currentSize: '1Ki' };
  await api.create(logicalVolumes, { ...requested, spec: { ...requested.spec, size: '1Gi' }, status });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 8, never);
  assert.equal(volume?.status?.volumeID, 'old');
});
