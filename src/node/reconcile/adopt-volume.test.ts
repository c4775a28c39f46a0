import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { reconcilingNode, requested, settled } from '../testing/reconciling-node.ts';

const adopting = (id: string, spec: Partial<LogicalVolume['spec']> = {}, name = 'pvc-1'): LogicalVolume => ({
  metadata: { name, annotations: { 'moorage.dev/adopt': id, 'moorage.dev/claim': 'shop/db' } },
  spec: { ...requested.spec, name, ...spec },
});

test('a LogicalVolume adopts an existing volume: only its tags change, and name the new owner', async (t) => {
  const { api, ssd, hdd, answered } = reconcilingNode(t);
  const tags = [
    'moorage.dev/created',
    'moorage.dev/filesystem=ext4',
    'moorage.dev/volume=old',
    'moorage.dev/claim=old/db',
  ];
  await hdd.create({ id: 'lost', sizeBytes: 2048n, tags });
  await api.create(logicalVolumes, adopting('lost'));
  const volume = await answered();
  assert.deepEqual(volume?.status, { volumeID: 'lost', currentSize: '2Ki', code: 0, message: '' });
  assert.ok(volume?.metadata.finalizers?.includes('topolvm.io/logicalvolume'), 'it is removed with its object');
  assert.deepEqual(hdd.get('lost')?.tags, [
    ...tags.slice(0, 2),
    'moorage.dev/volume=pvc-1',
    'moorage.dev/claim=shop/db',
  ]);
  assert.deepEqual([ssd.list().length, hdd.list().length], [0, 1]);
});

test('a volume that others created is tagged as adopted, so that it is never formatted', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await ssd.create({ id: 'data', sizeBytes: 1024n, tags: ['backup'] });
  await api.create(logicalVolumes, adopting('data'));
  await answered();
  const owner = ['moorage.dev/volume=pvc-1', 'moorage.dev/claim=shop/db'];
  assert.deepEqual(ssd.get('data')?.tags, ['backup', ...owner, 'moorage.dev/adopted']);
});

test('what cannot be adopted is refused with the reason, and nothing is created or changed', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await ssd.create({ id: 'data', sizeBytes: 1024n, tags: [] });
  await ssd.create({ id: 'of-a-pod', sizeBytes: 1024n, tags: ['ephemeral'] });
  await ssd.snapshot('data', { id: 'snap', access: 'ro', tags: [] });
  await api.create(logicalVolumes, adopting('data', {}, 'owner'));
  await answered('owner');
  const before = ssd.list();
  const rows: readonly [string, LogicalVolume, number, RegExp][] = [
    ['missing', adopting('gone', {}, 'missing'), 5, /^volume gone is not on the disks of this node/],
    ['owned', adopting('data', {}, 'owned'), 6, /already belongs to LogicalVolume owner/],
    ['inline', adopting('of-a-pod', {}, 'inline'), 9, /inline volume of a pod/],
    ['snapshot', adopting('snap', {}, 'snapshot'), 9, /read-only; set spec.accessType to ro/],
  ];
  for (const [name, object, code, message] of rows) {
    await api.create(logicalVolumes, object);
    const { status } = (await answered(name)) ?? {};
    assert.equal(status?.code, code, name);
    assert.match(status.message ?? '', message);
    assert.equal(status.volumeID, undefined);
  }
  assert.deepEqual(ssd.list(), before);
});

test('a volume is not grown by its adoption', async (t) => {
  const { api, ssd, answered } = reconcilingNode(t);
  await ssd.create({ id: 'data', sizeBytes: 1024n, tags: [] });
  await api.create(logicalVolumes, adopting('data', { size: '2Ki' }));
  assert.match((await answered())?.status?.message ?? '', /it has 1 KiB, spec.size is 2Ki; request the size it has/);
  assert.equal(ssd.get('data')?.sizeBytes, 1024n);
});

test('deleting an object that adopted nothing removes no volume', async (t) => {
  const { api, ssd, answered, gone } = reconcilingNode(t);
  await ssd.create({ id: 'data', sizeBytes: 1024n, tags: [] });
  await api.create(logicalVolumes, adopting('data', { size: '2Ki' }));
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
  await settled();
  assert.ok(ssd.get('data'));
});
