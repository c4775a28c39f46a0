import assert from 'node:assert/strict';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { RpcClient } from '../../src/rpc/client.ts';
import { Controller, VolumeCapability_AccessMode_Mode as Mode, Node } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import { Health } from '../../src/rpc/gen/grpc/health/v1/health_pb.ts';
import { EngineService } from '../../src/rpc/gen/moorage/v1/engine_pb.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { faults } from '../../worlds/lvm/faults.ts';
import { disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { StandaloneProcess } from '../sanity/standalone-process.ts';

const mebibyte = 1024n ** 2n;
const inTime = { timeoutMs: 60_000 };

test('hung disks of two volume groups block no create, stage or metric in a third', {
  timeout: 600_000,
}, async (t) => {
  const hung: Awaited<ReturnType<typeof faults.hang>>[] = [];
  const standalone = await StandaloneProcess.start(t, async () => {
    const [first = '', second = '', third = ''] = disks();
    hung.push(await faults.delay(t, first, 3_600_000), await faults.hang(t, second));
    const groups = [];
    for (const disk of [...hung.map(({ path }) => path), third]) groups.push(await volumeGroup(t, { disks: [disk] }));
    const [one, two, three] = groups;
    const erasing = { 'spare-gb': 0, erase: 'shred', 'erase-passes': 1 };
    return [
      { name: 'one', 'volume-group': one, ...erasing },
      { name: 'two', 'volume-group': two, ...erasing },
      { name: 'three', 'volume-group': three, 'spare-gb': 0, default: true },
    ];
  });
  using controllers = new RpcClient(Controller, standalone.socket);
  using nodes = new RpcClient(Node, standalone.socket);
  using engines = new RpcClient(EngineService, join(standalone.directory, 'lvmd.sock'));
  using healths = new RpcClient(Health, join(standalone.directory, 'lvmd.sock'));
  const [controller, node, engine, health] = [controllers.methods, nodes.methods, engines.methods, healths.methods];
  const capability = {
    accessMode: { mode: Mode.SINGLE_NODE_WRITER },
    accessType: { case: 'mount' as const, value: { fsType: 'ext4' } },
  };
  const create = async (name: string, deviceClass: string, sizeBytes: bigint) => {
    const { volume } = await controller.createVolume(
      {
        name,
        capacityRange: { requiredBytes: sizeBytes },
        volumeCapabilities: [capability],
        parameters: { 'topolvm.io/device-class': deviceClass },
      },
      inTime,
    );
    return volume?.volumeId ?? '';
  };
  const areErasing = async () => {
    const { pools } = await engine.listPools({}, inTime);
    return pools.filter(({ erasures }) => erasures.length > 0).length === hung.length;
  };

  const doomed: string[] = [];
  for (const deviceClass of ['one', 'two']) {
    for (const name of ['a', 'b', 'c'])
      doomed.push(await create(`${deviceClass}-${name}`, deviceClass, 300n * mebibyte));
  }
  const deleted = doomed.map((volumeId) => controller.deleteVolume({ volumeId }, { timeoutMs: 600_000 }));
  t.after(() => Promise.allSettled(deleted)); // they never finish before the process ends
  await eventually('both classes are erasing', areErasing);
  for (const disk of hung) await disk.breakNow();
  assert.ok(await areErasing());

  try {
    await rm('/run/lvm/hints', { force: true }); // LVM's list of the disks to scan
    const { reason } = await health.check({}, inTime);
    assert.match(reason, /^device class one: no answer .*; device class two: no answer [^;]*; look for [^;]*$/);
    const volumeId = await create('elsewhere', 'three', 64n * mebibyte);
    const stagingTargetPath = join(standalone.directory, 'staged');
    await mkdir(stagingTargetPath);
    await node.nodeStageVolume({ volumeId, stagingTargetPath, volumeCapability: capability }, inTime);
    const { usage } = await node.nodeGetVolumeStats({ volumeId, volumePath: stagingTargetPath }, inTime);
    assert.ok(usage.length > 0);
    await node.nodeUnstageVolume({ volumeId, stagingTargetPath }, inTime);
    await controller.deleteVolume({ volumeId }, inTime);
  } finally {
    for (const disk of hung) await disk.heal();
  }
  await Promise.race(deleted);
});
