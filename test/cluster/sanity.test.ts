import { join } from 'node:path';
import { test } from 'node:test';
import { driverName, ioLimitNames, parameters } from '../../src/api/names.ts';
import { ensureCsiSanity } from '../../worlds/cluster/binaries.ts';
import { startCluster } from '../../worlds/cluster/cluster.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { mustPassCsiSanity, neverOffered } from '../sanity/csi-sanity.ts';

/** Below the kubelet's directory, because the agent sees no other. */
const mountPoints = '/var/lib/kubelet/plugins/kubernetes.io/csi/sanity';

test('csi-sanity passes on a real cluster, with node and controller on separate sockets', async (t) => {
  const program = await ensureCsiSanity();
  const cluster = await startCluster(t, { nodes: 1 });
  const moorage = await Moorage.install(cluster);
  const node = cluster.node('a'); // the controller's pod is there, too

  for (const accessType of ['mount', 'block'] as const) {
    await node.shell(`mkdir -p ${join(mountPoints, accessType)}`);
    await t.test(`as ${accessType}`, async () =>
      mustPassCsiSanity(
        {
          program,
          endpoint: `/var/lib/kubelet/plugins/${driverName}/node/csi-topolvm.sock`,
          controllerEndpoint: await moorage.controllerSocket(),
          dir: join(node.machine.dir, accessType), // visible on the host and on the node
          mountPoints: join(mountPoints, accessType),
          accessType,
          parameters: { [parameters.deviceClass]: 'thin' },
          mutableParameters: { [ioLimitNames.readBytesPerSecond]: '100Mi' },
          execute: async (argv, timeoutMs) => (await node.machine.run(argv, { timeoutMs })).stdout,
        },
        neverOffered,
      ),
    );
  }
});
