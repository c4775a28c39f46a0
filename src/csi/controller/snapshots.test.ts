import assert from 'node:assert/strict';
import { test } from 'node:test';
import { servedController } from '../testing/in-memory-stores.ts';

const timeoutMs = 120_000;

test('a snapshot reports its source, its size and its creation time', async (t) => {
  const { calls } = await servedController(t);
  const parameters = { 'csi.storage.k8s.io/volumesnapshot/name': 'nightly' };
  const { snapshot } = await calls.createSnapshot({ name: 's', sourceVolumeId: 'uid-1', parameters }, { timeoutMs });
  assert.deepEqual([snapshot?.snapshotId, snapshot?.sourceVolumeId], ['snap-1', 'uid-1']);
  assert.deepEqual([snapshot?.sizeBytes, snapshot?.readyToUse], [1024n ** 3n, true]);
  assert.equal(snapshot?.creationTime?.seconds, BigInt(Date.UTC(2026, 0, 2, 3, 4, 5) / 1000));
});

for (const [how, request, message] of [
  ['without a name', { sourceVolumeId: 'v' }, /^name is missing/],
  ['without a source', { name: 's' }, /^source_volume_id is missing/],
  [
    'with an unknown parameter',
    { name: 's', sourceVolumeId: 'v', parameters: { 'topolvm.io/device-class': 'fast' } },
    /^unknown name "topolvm.io\/device-class" in parameters; remove it/,
  ],
] as const) {
  test(`a snapshot ${how} is refused`, async (t) => {
    const { snapshots, calls } = await servedController(t);
    await assert.rejects(calls.createSnapshot(request, { timeoutMs }), { code: 'InvalidArgument', message });
    assert.equal(snapshots.stored.size, 0);
  });
}

test('snapshots can be listed all at once, by source, by id and page by page', async (t) => {
  const { calls } = await servedController(t);
  for (const [name, sourceVolumeId] of [
    ['s', 'uid-1'],
    ['t', 'uid-2'],
    ['u', 'uid-1'],
  ] as const) {
    await calls.createSnapshot({ name, sourceVolumeId }, { timeoutMs });
  }
  const list = async (request: Parameters<typeof calls.listSnapshots>[0]) => {
    const { entries, nextToken } = await calls.listSnapshots(request, { timeoutMs });
    return [entries.map(({ snapshot }) => snapshot?.snapshotId), nextToken];
  };
  assert.deepEqual(await list({}), [['snap-1', 'snap-2', 'snap-3'], '']);
  assert.deepEqual(await list({ sourceVolumeId: 'uid-1' }), [['snap-1', 'snap-3'], '']);
  assert.deepEqual(await list({ snapshotId: 'snap-2' }), [['snap-2'], '']);
  assert.deepEqual(await list({ snapshotId: 'snap-2', sourceVolumeId: 'uid-1' }), [[], '']);
  assert.deepEqual(await list({ snapshotId: 'snap-9' }), [[], '']);
  const [first, token] = await list({ maxEntries: 1, sourceVolumeId: 'uid-1' });
  assert.deepEqual(first, ['snap-1']);
  assert.deepEqual(await list({ sourceVolumeId: 'uid-1', startingToken: String(token) }), [['snap-3'], '']);
  await assert.rejects(list({ startingToken: 'other' }), { code: 'Aborted' });
});

test('GetSnapshot finds a snapshot by its id', async (t) => {
  const { calls } = await servedController(t);
  await calls.createSnapshot({ name: 's', sourceVolumeId: 'uid-1' }, { timeoutMs });
  const { snapshot } = await calls.getSnapshot({ snapshotId: 'snap-1' }, { timeoutMs });
  assert.equal(snapshot?.sourceVolumeId, 'uid-1');
  await assert.rejects(calls.getSnapshot({ snapshotId: 'uid-1' }, { timeoutMs }), { code: 'NotFound' });
  await assert.rejects(calls.getSnapshot({}, { timeoutMs }), { code: 'InvalidArgument' });
});

test('DeleteSnapshot requires an id and never deletes a volume', async (t) => {
  const { volumes, snapshots, calls } = await servedController(t);
  await volumes.create({
    name: 'v',
    nodeNames: ['a'],
    deviceClass: '',
    lvcreateOptionClass: '',
    isEncrypted: false,
    sizeBytes: 1n,
  });
  await calls.createSnapshot({ name: 's', sourceVolumeId: 'uid-1' }, { timeoutMs });
  await calls.deleteSnapshot({ snapshotId: 'uid-1' }, { timeoutMs });
  await calls.deleteSnapshot({ snapshotId: 'snap-1' }, { timeoutMs });
  assert.deepEqual([volumes.stored.size, snapshots.stored.size], [1, 0]);
  await assert.rejects(calls.deleteSnapshot({}, { timeoutMs }), { code: 'InvalidArgument' });
});
