import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { RpcClient } from '../../src/rpc/client.ts';
import { Controller, VolumeCapability_AccessMode_Mode as Mode, Node } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import { whyNotRoot } from '../native/scratch.ts';
import { StandaloneProcess } from './standalone-process.ts';

const timeoutMs = 120_000;
const volumeCapability = {
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
  accessType: { case: 'mount' as const, value: { fsType: 'ext4' } },
};
const capacityRange = { requiredBytes: 48n * 1024n ** 2n };

test('volumes, snapshots and mounts outlive the process, and the next one finds them all', {
  skip: whyNotRoot,
}, async (t) => {
  const standalone = await StandaloneProcess.onFiles(t);
  using controllerClient = new RpcClient(Controller, standalone.socket);
  using nodeClient = new RpcClient(Node, standalone.socket);
  const [controller, node] = [controllerClient.methods, nodeClient.methods];
  const free = async () => (await controller.getCapacity({}, { timeoutMs })).availableCapacity;
  const freeBefore = await free();

  /** Everything that a client can read. */
  const listed = async () => ({
    volumes: (await controller.listVolumes({}, { timeoutMs })).entries,
    snapshots: (await controller.listSnapshots({}, { timeoutMs })).entries,
  });
  const request = { name: 'däta/of the shop', capacityRange, volumeCapabilities: [volumeCapability] };
  const { volume } = await controller.createVolume(request, { timeoutMs });
  const volumeId = volume?.volumeId ?? '';

  const paths = {
    stagingTargetPath: join(standalone.directory, 'staging'),
    targetPath: join(standalone.directory, 'pod'),
  };
  await mkdir(paths.stagingTargetPath);
  await node.nodeStageVolume({ volumeId, ...paths, volumeCapability }, { timeoutMs });
  await node.nodePublishVolume({ volumeId, ...paths, volumeCapability }, { timeoutMs });
  await writeFile(join(paths.targetPath, 'orders'), 'three', { flush: true });

  const { snapshot } = await controller.createSnapshot({ name: 'night', sourceVolumeId: volumeId }, { timeoutMs });
  const snapshotId = snapshot?.snapshotId ?? '';
  const volumeContentSource = { type: { case: 'snapshot' as const, value: { snapshotId } } };
  const restore = { ...request, name: 'restored', volumeContentSource };
  const restored = (await controller.createVolume(restore, { timeoutMs })).volume;
  const before = await listed();
  assert.deepEqual([before.volumes.length, before.snapshots.length], [2, 1]);

  await standalone.restart();
  assert.deepEqual(await listed(), before);
  assert.deepEqual((await controller.createVolume(request, { timeoutMs })).volume, volume);
  assert.deepEqual((await controller.createVolume(restore, { timeoutMs })).volume, restored);
  assert.equal(await readFile(join(paths.targetPath, 'orders'), 'utf8'), 'three');
  const { usage } = await node.nodeGetVolumeStats({ volumeId, volumePath: paths.targetPath }, { timeoutMs });
  assert.ok(usage.length > 0);

  await assert.rejects(controller.deleteVolume({ volumeId }, { timeoutMs }), { code: 'FailedPrecondition' });
  await node.nodeUnpublishVolume({ volumeId, ...paths }, { timeoutMs });
  await node.nodeUnstageVolume({ volumeId, ...paths }, { timeoutMs });
  await controller.deleteSnapshot({ snapshotId }, { timeoutMs });
  for (const id of [volumeId, restored?.volumeId ?? '']) await controller.deleteVolume({ volumeId: id }, { timeoutMs });
  assert.deepEqual(await listed(), { volumes: [], snapshots: [] });
  assert.ok(
    freeBefore - (await free()) < 1024n ** 2n,
    'all space is free again, except for what the directory itself takes',
  );
});
