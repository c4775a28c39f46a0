import { join } from 'node:path';
import { test } from 'node:test';
import { driverName, ioLimitNames, parameters } from '../../src/names.ts';
import { mustBeSane, neverOffered } from '../sanity/csi-sanity.ts';
import { ensureCsiSanity } from '../worlds/cluster/binaries.ts';
import { startCluster } from '../worlds/cluster/cluster.ts';
import { Component } from '../worlds/cluster/component.ts';
import { Moorage } from '../worlds/cluster/moorage.ts';
import { network } from '../worlds/cluster/network.ts';

const door = { host: network.gateway, port: 7070 };

test('csi-sanity passes on a real cluster, with node and controller on sockets of their own', async (t) => {
  const program = await ensureCsiSanity();
  const cluster = await startCluster(t, { nodes: 1 });
  const moorage = await Moorage.install(cluster);
  const script = join(import.meta.dirname, '..', 'worlds', 'cluster', 'socket-door.ts');
  const forward = [process.execPath, script, moorage.socket, door.host, String(door.port)];
  new Component(cluster.namespaces, join(cluster.dir, 'logs'), 'socket-door', forward).start();
  const node = cluster.node('a');

  for (const accessType of ['mount', 'block'] as const) {
    await t.test(`as ${accessType}`, () =>
      mustBeSane(
        {
          program,
          endpoint: `/var/lib/kubelet/plugins/${driverName}/node/csi-topolvm.sock`,
          controllerEndpoint: `dns:///${door.host}:${door.port}`,
          dir: join(node.machine.dir, accessType), // which the node and we see alike
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
