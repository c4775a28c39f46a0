import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { RpcClient } from '../../src/rpc/client.ts';
import { Controller, VolumeCapability_AccessMode_Mode as Mode } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import { scratchFilesystem, whyNotRoot } from '../native/scratch.ts';
import { StandaloneProcess } from './standalone-process.ts';

const timeoutMs = 120_000;

test('without a configuration, volumes are files in a directory that only root can read', {
  skip: whyNotRoot,
}, async (t) => {
  let varLib = '';
  const { socket } = await StandaloneProcess.byDefault(t, async () => {
    varLib = await scratchFilesystem(t, 'ext4', 2048);
    return varLib;
  });
  const directory = join(varLib, 'moorage');
  assert.equal((await stat(directory)).mode & 0o777, 0o700);

  using client = new RpcClient(Controller, socket);
  const controller = client.methods;
  const { volume } = await controller.createVolume(
    {
      name: 'first',
      capacityRange: { requiredBytes: 64n * 1024n ** 2n },
      volumeCapabilities: [{ accessMode: { mode: Mode.SINGLE_NODE_WRITER }, accessType: { case: 'block', value: {} } }],
    },
    { timeoutMs },
  );
  const volumeId = volume?.volumeId ?? '';
  assert.deepEqual((await readdir(directory)).sort(), ['.moorage-pool', `${volumeId}.img`, `${volumeId}.json`]);
  assert.deepEqual(volume?.accessibleTopology[0]?.segments, { 'topology.topolvm.io/node': 'here' });
  await controller.deleteVolume({ volumeId }, { timeoutMs });
  assert.deepEqual(await readdir(directory), ['.moorage-pool']);
});
