import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type LogicalVolume, type LogicalVolumeStatus, logicalVolumes } from '../../api/logical-volume.ts';
import { systemClock } from '../../base/clock.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { Informer } from '../../kube/informer.ts';
import type { Node } from '../../kube/resource.ts';
import { nodes } from '../../kube/resource.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { nodeFactsOf } from '../node-object/node-publisher.ts';
import { never, settled } from '../testing/reconciling-node.ts';
import { lostVolumes, type Sighting, sighting } from './lost-volumes.ts';

const removed = { 'moorage.dev/node-removed': 'old' };
const created: LogicalVolumeStatus = { volumeID: 'v', currentSize: '1Ki' };

function volume(status: LogicalVolumeStatus, metadata: object = {}, deviceClass = 'ssd') {
  return {
    metadata: { name: 'pvc-1', uid: 'u', resourceVersion: '1', creationTimestamp: '', ...metadata },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Ki', deviceClass },
    status,
  };
}

const [withIt, without] = [new InMemoryPool('ssd', 4096n), new InMemoryPool('ssd', 4096n)];
await withIt.create({ id: 'v', sizeBytes: 1024n, tags: [] });
const here = new Pools([withIt], 'ssd');
const elsewhere = new Pools([without], 'ssd');
const unavailable = new Pools();
unavailable.become({ pools: [without], defaultClass: 'ssd', unavailable: new Map([['hdd', new Error('no disk')]]) });

const rows: readonly [string, ReturnType<typeof volume>, Pools, string | undefined, Sighting][] = [
  ['is here', volume(created), here, 'new', 'nothing'],
  ['is not here', volume(created), elsewhere, 'new', 'lost'],
  ['is not here, in the default class', volume(created, {}, ''), elsewhere, 'new', 'lost'],
  ['is not here, as reported', volume({ ...created, missingFrom: 'new' }), elsewhere, 'new', 'nothing'],
  ['is not here either, as the machine before', volume({ ...created, missingFrom: 'old' }), elsewhere, 'new', 'lost'],
  ['is here again', volume({ ...created, missingFrom: 'old' }), here, 'new', 'found'],
  ['is here again after its Node was deleted', volume(created, { annotations: removed }), here, 'new', 'found'],
  ['is here while its Node is being removed', volume(created, { annotations: removed }), here, 'old', 'nothing'],
  ['is not here, and a class cannot be served', volume(created), unavailable, 'new', 'nothing'],
  ['is not here, and its class is not configured', volume(created, {}, 'nvme'), elsewhere, 'new', 'nothing'],
  ['is not here, and no class is', volume(created, {}, ''), new Pools(), 'new', 'nothing'],
  ['is not here, and the Node does not exist', volume(created), elsewhere, undefined, 'nothing'],
  ['was not created yet', volume({}), elsewhere, 'new', 'nothing'],
  ['is being deleted', volume(created, { deletionTimestamp: 'now' }), elsewhere, 'new', 'nothing'],
  [
    'was given up',
    volume(created, { annotations: { 'topolvm.io/pendingdeletion': 'true' } }),
    elsewhere,
    'new',
    'nothing',
  ],
];
for (const [state, object, pools, uid, news] of rows) {
  test(`a volume that ${state}: ${news}`, () => assert.equal(sighting(object, pools, uid), news));
}

async function machine(t: TestContext, pools: Pools) {
  const api = new InMemoryApi<LogicalVolume>();
  const nodeApi = new InMemoryApi<Node>();
  const clock = new ManualClock();
  const common = { clock: systemClock, log: silentLog };
  const volumes = new Informer({ ...common, client: api.client, resource: logicalVolumes });
  const node = new Informer({ ...common, client: nodeApi.client, resource: nodes, project: nodeFactsOf });
  const work = lostVolumes({ nodeName: 'a', client: api.client, volumes, node, pools, log: silentLog });
  const workers = new Workers([work], { clock, log: silentLog, random: () => 0 });
  workers.start();
  volumes.start();
  node.start();
  t.after(async () => {
    await workers.stop(0);
    await Promise.all([volumes.stop(), node.stop()]);
  });
  await nodeApi.create(nodes, { metadata: { name: 'a' } });
  const settle = async () => {
    await settled();
    clock.advance(2000);
    await settled();
  };
  return { api, volumes, settle };
}

test('a new machine under the old name reports the volumes that it does not have, and creates none', async (t) => {
  const pool = new InMemoryPool('ssd', 4096n);
  const { api, volumes, settle } = await machine(t, new Pools([pool], 'ssd'));
  const { metadata, spec } = volume(created, { annotations: removed });
  await api.create(logicalVolumes, { metadata, spec, status: created });
  await settle();

  const reported = await volumes.until('pvc-1', (found) => Boolean(found?.status?.missingFrom), never);
  assert.equal(reported?.status?.missingFrom, 'uid-1');
  assert.match(
    reported?.status?.message ?? '',
    /^volume v is not on the disks of node a: the machine or its disks were/,
  );
  assert.equal(reported?.metadata.annotations?.['moorage.dev/node-removed'], 'old', 'a person can still decide');
  assert.deepEqual(pool.list(), []);

  await pool.create({ id: 'v', sizeBytes: 1024n, tags: [] }); // the disk was plugged in
  await settle();
  const found = await volumes.until(
    'pvc-1',
    (common) => common?.metadata.annotations?.['moorage.dev/node-removed'] === undefined,
    never,
  );
  assert.deepEqual(found?.status, { ...created, message: '' });
});

test('a volume group that is being read again causes no report', async (t) => {
  const pool = new InMemoryPool('ssd', 4096n);
  await pool.create({ id: 'v', sizeBytes: 1024n, tags: [] });
  const pools = new Pools([pool], 'ssd');
  const { api, settle } = await machine(t, pools);
  const { metadata, spec } = volume(created);
  await api.create(logicalVolumes, { metadata, spec, status: created });
  await settle();
  pools.become({ pools: [new InMemoryPool('ssd', 4096n)], defaultClass: 'ssd', unavailable: new Map() });
  await settled();
  pools.become({ pools: [pool], defaultClass: 'ssd', unavailable: new Map() });
  await settle();
  assert.deepEqual(
    api.calls.filter((call) => call.startsWith('patch')),
    [],
  );
});
