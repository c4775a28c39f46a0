import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import type { InMemoryApi } from '../../api/testing/in-memory-api.ts';
import { never, reconcilingNode, settled, wish } from '../testing/reconciling-node.ts';

/** What the controller does when a claim shall be larger. */
async function ask(api: InMemoryApi<LogicalVolume>, size: string, at: string): Promise<void> {
  const body = { metadata: { annotations: { 'topolvm.io/resize-requested-at': at }, generation: at }, spec: { size } };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body });
}

const answers = (at: string) => (volume: StoredLogicalVolume | undefined) => volume?.status?.answeredResize === at;

test('a volume grows with one write, and says which request it answers', async (t) => {
  const { api, ssd, volumes, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, wish);
  await answered();
  api.calls.length = 0;
  await ask(api, '2Ki', 'noon');
  const volume = await volumes.until('pvc-1', answers('noon'), never);
  const status = { volumeID: 'uid-1', currentSize: '2Ki', code: 0, message: '', answeredResize: 'noon' };
  assert.deepEqual(volume?.status, status);
  assert.equal(ssd.get('uid-1')?.sizeBytes, 2048n);
  assert.deepEqual(api.calls, ['patch pvc-1', 'patch pvc-1/status']);
});

test('a volume that cannot grow says so at once, keeps what it has, and grows when there is room', async (t) => {
  const { api, ssd, volumes, answered } = reconcilingNode(t);
  await ssd.create({ id: 'other', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, wish);
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
  await settled();
  assert.deepEqual(api.calls, [], 'still no room is no news');

  await ssd.remove('other');
  const grown = await volumes.until('pvc-1', (volume) => volume?.status?.code === 0, never);
  assert.equal(grown?.status?.currentSize, '3Ki');
});

test('a wish to grow that is withdrawn leaves no complaint behind', async (t) => {
  const { api, volumes, answered } = reconcilingNode(t);
  await api.create(logicalVolumes, wish);
  await answered();
  await ask(api, '1Gi', 'noon');
  await volumes.until('pvc-1', answers('noon'), never);
  await ask(api, '1Ki', 'one');
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 0, never);
  assert.equal(volume?.status?.message, '');
  assert.equal(volume.status.currentSize, '1Ki');
});

test('a volume whose size was not told is measured, and grown if it is wanted larger', async (t) => {
  const { api, hdd, volumes } = reconcilingNode(t);
  await hdd.create({ id: 'old-name', sizeBytes: 512n, tags: [] });
  await api.create(logicalVolumes, { ...wish, status: { volumeID: 'old-name' } });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.currentSize === '1Ki', never);
  assert.equal(volume?.status?.volumeID, 'old-name');
});

test('an object of TopoLVM, which leaves out what is zero, is told of its failure as well', async (t) => {
  const { api, ssd, volumes } = reconcilingNode(t);
  await ssd.create({ id: 'old', sizeBytes: 1024n, tags: [] });
  const status = { volumeID: 'old', currentSize: '1Ki' };
  await api.create(logicalVolumes, { ...wish, spec: { ...wish.spec, size: '1Gi' }, status });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 8, never);
  assert.equal(volume?.status?.volumeID, 'old');
});
