import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { type NodeStorage, nodeStorages } from '../../api/node-storage.ts';
import { systemClock } from '../../base/clock.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { ApiError } from '../../kube/api-error.ts';
import { Informer } from '../../kube/informer.ts';
import { type Node, nodes } from '../../kube/resource.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { nodeFactsOf } from '../node-object/node-publisher.ts';
import { nodeStorageWork } from './node-storage-work.ts';
import { Orphans } from './orphans.ts';

async function reportingNode(t: TestContext) {
  const [nodeApi, volumeApi, api] = [
    new InMemoryApi<Node>(),
    new InMemoryApi<LogicalVolume>(),
    new InMemoryApi<NodeStorage>(),
  ];
  const clock = new ManualClock();
  const pods = new Set<string>();
  const pool = new InMemoryPool('ssd', 1000n);
  const pools = new Pools([pool]);
  const shared = { clock: systemClock, log: silentLog };
  const node = new Informer({ client: nodeApi.client, resource: nodes, project: nodeFactsOf, ...shared });
  const volumes = new Informer({ client: volumeApi.client, resource: logicalVolumes, ...shared });
  const warnings: string[] = [];
  const server = { isAbsent: false };
  const work = nodeStorageWork({
    nodeName: 'a',
    client: {
      patch: async (resource, name, patch, options) => {
        if (!server.isAbsent) return api.client.patch(resource, name, patch, options);
        api.calls.push('refused');
        throw new ApiError('patch', { code: 404, reason: 'NotFound' });
      },
    },
    node,
    volumes,
    staticVolumes: undefined,
    pools,
    engine: { allPools: pools, deviceClasses: () => [], outdated: () => undefined },
    orphans: new Orphans(),
    pods: async () => pods,
    inspect: async () => ({ versions: { moorage: '1' }, features: {} }),
    swap: async () => [{ device: '/dev/sda2', protection: 'Plain' }],
    clock,
    log: { ...silentLog, warn: (message: string) => void warnings.push(message) },
  });
  const workers = new Workers([work], { clock, log: silentLog, random: () => 0 });
  workers.start();
  volumes.start();
  node.start();
  await Promise.all([volumes.whenSynced(), node.whenSynced()]);
  t.after(async () => {
    await workers.stop(0);
    await Promise.all([volumes.stop(), node.stop()]);
    assert.equal(clock.timers, 0);
  });
  const passes = async (ms: number) => {
    await setImmediate();
    clock.advance(ms);
    for (let i = 0; i < 5; i++) await setImmediate();
  };
  const writes = () => api.calls.filter((call) => call === 'patch a' || call === 'refused').length;
  const status = async () => (await api.get(nodeStorages, 'a'))?.status;
  const register = () => nodeApi.create(nodes, { metadata: { name: 'a' } });
  return { nodeApi, volumeApi, api, clock, pool, pods, server, warnings, passes, writes, status, register };
}

test('a node reports its storage once its Node exists, with the uid of the Node', async (t) => {
  const { nodeApi, status, passes, writes, register } = await reportingNode(t);
  await passes(60_000);
  assert.equal(writes(), 0);
  const { metadata } = await register();
  await passes(1000);
  assert.equal((await status())?.nodeUID, metadata.uid);
  assert.equal((await status())?.pools[0]?.volumeGroupUUID, 'uuid-ssd');

  await nodeApi.delete(nodes, 'a');
  await passes(60_000);
  assert.equal((await status())?.nodeUID, metadata.uid, 'it outlives the Node');
  const again = await register();
  await passes(1000);
  assert.equal((await status())?.nodeUID, again.metadata.uid);
  assert.equal(writes(), 2);
});

test('changes are written together, at most every 30 s, and nothing is written while nothing changes', async (t) => {
  const { pool, status, passes, writes, register } = await reportingNode(t);
  await register();
  await passes(1000);
  assert.equal(writes(), 1);
  const first = (await status())?.updatedAt;
  for (const id of ['v1', 'v2', 'v3']) await pool.create({ id, sizeBytes: 100n, tags: ['ephemeral'] });
  await passes(29_000);
  assert.equal(writes(), 1, 'not yet');
  await passes(1000);
  assert.equal(writes(), 2);
  assert.equal((await status())?.pools[0]?.free, '700');
  assert.notEqual((await status())?.updatedAt, first);
  await pool.addTags('v1', ['of-no-interest']);
  await passes(60_000);
  assert.equal(writes(), 2);
});

test('a deleted object is written again with the next news of a pool, unchanged', async (t) => {
  const { api, pool, status, passes, writes, register } = await reportingNode(t);
  await register();
  await passes(1000);
  const before = await status();
  await api.delete(nodeStorages, 'a');
  await passes(600_000);
  await pool.create({ id: 'v', sizeBytes: 1n, tags: ['ephemeral'] });
  await pool.remove('v'); // like a pool that reads its disks again
  await passes(1000);
  assert.deepEqual(await status(), before);
  assert.equal(writes(), 2);
});

test('the first report waits until it is known which volumes of a lost cluster are there', async (t) => {
  const { pool, status, passes, writes, register } = await reportingNode(t);
  await pool.create({ id: 'lost', sizeBytes: 5n, tags: ['moorage.dev/created'] });
  await register();
  await passes(1000);
  assert.equal(writes(), 0);
  await passes(5000);
  assert.equal((await status())?.orphans.total, 1);
  assert.equal(writes(), 1);
});

test('an inline volume does not delay the first report, and is reported after its pod is gone', async (t) => {
  const { pool, pods, status, passes, register } = await reportingNode(t);
  await pool.create({ id: 'inline', sizeBytes: 5n, tags: ['ephemeral', 'moorage.dev/pod=p'] });
  pods.add('p');
  await register();
  await passes(1000);
  assert.equal((await status())?.orphans.total, 0);
  pods.delete('p');
  await passes(600_000);
  await passes(5000);
  await passes(30_000);
  assert.equal((await status())?.orphans.volumes[0]?.name, 'inline');
});

test('a volume without an object is reported with the next write, and no longer once it has one', async (t) => {
  const { volumeApi, clock, pool, status, passes, register } = await reportingNode(t);
  await register();
  await passes(1000);
  await pool.create({ id: 'uid-1', sizeBytes: 5n, tags: ['moorage.dev/created'] });
  assert.equal((await status())?.orphans.total, 0);
  await passes(30_000);
  await passes(30_000);
  const found = (await status())?.orphans;
  const { since = '', ...orphan } = found?.volumes[0] ?? assert.fail();
  assert.deepEqual(orphan, { name: 'uid-1', deviceClass: 'ssd', size: '5', tags: ['moorage.dev/created'] });
  assert.equal(clock.now() - Date.parse(since), 30_000);
  assert.equal(found?.total, 1);

  await volumeApi.create(logicalVolumes, { metadata: { name: 'pvc' }, spec: { name: 'pvc', nodeName: 'a', size: 5 } });
  await passes(30_000);
  assert.equal((await status())?.orphans.total, 0, 'its name is the uid of the object');
});

test('without the CRD one warning is logged, and the object is written when the CRD is there', async (t) => {
  const { server, warnings, pool, status, passes, writes, register } = await reportingNode(t);
  server.isAbsent = true;
  await register();
  await passes(1000);
  await passes(60_000);
  await pool.create({ id: 'v', sizeBytes: 1n, tags: ['ephemeral'] });
  await passes(60_000);
  assert.ok(writes() >= 3 && writes() <= 5, `${writes()} attempts`);
  assert.deepEqual(warnings, [
    'the API server has no CRD nodestorages.moorage.dev, so this node does not report its storage; apply it',
  ]);
  server.isAbsent = false;
  await passes(60_000);
  assert.equal((await status())?.pools[0]?.free, '999');
});
