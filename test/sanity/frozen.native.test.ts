import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtempDisposable, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { RpcClient } from '../../src/rpc/client.ts';
import { Controller, VolumeCapability_AccessMode_Mode as Mode, Node } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import { environment } from '../../worlds/host/environment.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { scratchDirectory, sh, whyNotRoot } from '../native/scratch.ts';
import { StandaloneProcess } from './standalone-process.ts';

const timeoutMs = 120_000;

/** A frozen filesystem blocks writes, and a blocked writer cannot even be killed. */
test('the next agent thaws a filesystem that a killed agent had frozen for a copy', {
  skip: whyNotRoot,
}, async (t) => {
  await using temporary = await mkdtempDisposable(join(tmpdir(), 'moorage-programs-'));
  const programs = temporary.path;
  const copying = join(programs, 'copying');
  const standalone = await StandaloneProcess.onFiles(t, 'xfs', { PATH: `${programs}:${environment().PATH}` });
  using controllerClient = new RpcClient(Controller, standalone.socket);
  using nodeClient = new RpcClient(Node, standalone.socket);
  const [controller, node] = [controllerClient.methods, nodeClient.methods];
  const volumeCapability = {
    accessMode: { mode: Mode.SINGLE_NODE_WRITER },
    accessType: { case: 'mount' as const, value: { fsType: 'ext4' } },
  };
  const { volume } = await controller.createVolume(
    { name: 'data', capacityRange: { requiredBytes: 48n * 1024n ** 2n }, volumeCapabilities: [volumeCapability] },
    { timeoutMs },
  );
  const volumeId = volume?.volumeId ?? '';
  const stagingTargetPath = join(await scratchDirectory(t), 'staging');
  await mkdir(stagingTargetPath);
  await node.nodeStageVolume({ volumeId, stagingTargetPath, volumeCapability }, { timeoutMs });

  await writeFile(join(programs, 'cp'), `#!/bin/sh\necho $$ >${copying}\nexec sleep 600\n`);
  await chmod(join(programs, 'cp'), 0o755);
  const lost = assert.rejects(controller.createSnapshot({ name: 'night', sourceVolumeId: volumeId }, { timeoutMs }));
  const group = await eventually('the copy is running', async () => {
    const pid = (await readFile(copying, 'utf8')).trim();
    return pid !== '' && Number(await sh(`ps -o pgid= -p ${pid}`));
  });
  assert.ok(group > 1);
  await standalone.end('SIGKILL');
  process.kill(-group, 'SIGKILL'); // like all processes of a container
  await lost;
  await rm(join(programs, 'cp'));

  await standalone.restart();
  await assert.rejects(
    sh(`LC_ALL=C fsfreeze --unfreeze ${stagingTargetPath}`),
    { message: /Invalid argument/ },
    'frozen',
  );
  const { snapshot } = await controller.createSnapshot({ name: 'night', sourceVolumeId: volumeId }, { timeoutMs });
  assert.ok(snapshot?.readyToUse);
});
