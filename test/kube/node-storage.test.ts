import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { type NodeStorage, nodeStorages } from '../../src/api/node-storage.ts';
import { systemClock } from '../../src/base/clock.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import { Informer } from '../../src/kube/informer.ts';
import { nodes } from '../../src/kube/resource.ts';
import { nodeFactsOf } from '../../src/node/node-object/node-publisher.ts';
import { nodeStorageWork } from '../../src/node/node-storage/node-storage-work.ts';
import { Orphans } from '../../src/node/node-storage/orphans.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { connect, startApiServer, withToken } from './api-server.ts';

const nodeName = 'a';
const file = (name: string) => `-f${join(import.meta.dirname, '..', '..', 'deploy', `${name}.yaml`)}`;
const { cluster, connection, admin } = await startApiServer();
const { kubectl } = cluster;
await kubectl('apply', file('namespace'), file('crd'), file('rbac'), file('node-policy'));
await kubectl('wait', '--for=condition=Established', 'crd/logicalvolumes.topolvm.io', 'crd/nodestorages.moorage.dev');
const node = await admin.create(nodes, { metadata: { name: nodeName } });

/** Reports one pool in memory, with the rights of an agent of the node. */
async function startAgent() {
  const bound = ['--bound-object-kind=Node', `--bound-object-name=${nodeName}`];
  const token = await kubectl('-n', 'moorage-system', 'create', 'token', 'moorage-node', ...bound);
  const client = connect({ after }, await withToken(connection, token.trim()));
  const clock = new ManualClock();
  const pool = new InMemoryPool('ssd', 1024n);
  const pools = new Pools([pool]);
  const shared = { client, clock: systemClock, log: silentLog };
  const own = new Informer({ ...shared, resource: nodes, project: nodeFactsOf });
  const volumes = new Informer({ ...shared, resource: logicalVolumes, fieldSelector: `spec.nodeName=${nodeName}` });
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) } as unknown as typeof silentLog;
  const inspect = async () => ({ versions: { moorage: 'test' }, features: { ioLimits: false } });
  const swap = async () => [{ device: '/dev/sda2', protection: 'Plain' } as const];
  const work = nodeStorageWork({
    ...{ nodeName, client, node: own, volumes, staticVolumes: undefined, pools },
    engine: { allPools: pools, deviceClasses: () => [], outdated: () => undefined },
    ...{ orphans: new Orphans(), pods: async () => undefined, inspect, swap, clock, log },
  });
  const workers = new Workers([work], { clock, log: silentLog, random: Math.random });
  workers.start();
  for (const watch of [own, volumes]) {
    watch.start();
    after(() => watch.stop());
  }
  after(() => workers.stop(0));
  /** Time passes until the object is as wanted. */
  const becomes = (what: string, isWanted: (object: NodeStorage | undefined) => boolean) =>
    eventually(what, async () => {
      clock.advance(5000);
      return isWanted(await admin.get(nodeStorages, nodeName));
    });
  return { pool, warnings, becomes };
}

test('an agent reports its storage, again after its object was lost, and its report outlives the Node', async () => {
  const { pool, warnings, becomes } = await startAgent();
  await becomes('the pool is reported', (object) => object?.status?.pools[0]?.free === '1Ki');
  const first = await admin.get(nodeStorages, nodeName);
  assert.equal(first?.status?.nodeUID, node.metadata.uid);
  assert.equal(first?.metadata.ownerReferences, undefined);

  await pool.create({ id: 'lost', sizeBytes: 24n, tags: ['moorage.dev/claim=shop/db'] });
  await becomes('the volume without an object is reported', (object) => object?.status?.orphans.total === 1);
  const { status } = (await admin.get(nodeStorages, nodeName)) ?? assert.fail();
  const [orphan] = status?.orphans.volumes ?? [];
  const { since = '', ...rest } = orphan ?? assert.fail();
  assert.deepEqual(rest, { name: 'lost', deviceClass: 'ssd', size: '24', tags: ['moorage.dev/claim=shop/db'] });
  assert.ok(Number.isFinite(Date.parse(since)));
  assert.match(await kubectl('get', 'nodestorages'), /^a +Healthy +1 +0 +test /m);

  await kubectl('delete', 'crd', 'nodestorages.moorage.dev');
  await pool.remove('lost');
  await eventually('the agent notices', async () => {
    await becomes('time passes', () => true);
    return warnings.length > 0;
  });
  await kubectl('apply', file('crd'));
  await becomes('it is written again', (object) => object?.status?.orphans.total === 0);

  await admin.delete(nodes, nodeName);
  await eventually('the Node is gone', async () => (await admin.get(nodes, nodeName)) === undefined);
  assert.equal((await admin.get(nodeStorages, nodeName))?.status?.nodeUID, node.metadata.uid);
});
