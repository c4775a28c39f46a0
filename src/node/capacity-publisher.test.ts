import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { ManualClock } from '../base/manual-clock.ts';
import { Informer } from '../kube/informer.ts';
import { type Node, nodes } from '../kube/resource.ts';
import { InMemoryApi } from '../logical-volume/in-memory-api.ts';
import { Pools } from '../storage/pools.ts';
import { CapacityPublisher, capacityAnnotationsOf } from './capacity-publisher.ts';
import { InMemoryPool } from './in-memory-pool.ts';

const annotation = 'capacity.topolvm.io/ssd';
const never = new AbortController().signal;

function publisher(t: TestContext) {
  const api = new InMemoryApi<Node>();
  const clock = new ManualClock();
  const pool = new InMemoryPool('ssd', 1000n);
  const node = new Informer({
    client: api.client,
    resource: nodes,
    project: capacityAnnotationsOf,
    clock: systemClock,
    log: silentLog,
  });
  const capacity = new CapacityPublisher({
    nodeName: 'a',
    client: api.client,
    node,
    pools: new Pools([pool]),
    wanted: () => new Map([[annotation, String(pool.capacity().freeBytes)]]),
    clock,
    log: silentLog,
    random: () => 0,
  });
  node.start();
  t.after(async () => {
    await capacity.stop(0);
    await node.stop();
    assert.equal(clock.timers, 0);
  });
  const becomes = (bytes: string) => node.until('a', (annotations) => annotations?.[annotation] === bytes, never);
  const patches = () => api.calls.filter((call) => call === 'patch a').length;
  return { api, clock, pool, becomes, patches };
}

test('a node tells its room when it appears, and again when it comes back', async (t) => {
  const { api, becomes } = publisher(t);
  await api.create(nodes, { metadata: { name: 'a' } });
  await becomes('1000');
  await api.delete(nodes, 'a');
  await api.create(nodes, { metadata: { name: 'a' } });
  await becomes('1000');
});

test('a burst of volumes is one write', async (t) => {
  const { api, clock, pool, becomes, patches } = publisher(t);
  await api.create(nodes, { metadata: { name: 'a' } });
  await becomes('1000');
  for (const id of ['v1', 'v2', 'v3']) await pool.create({ id, sizeBytes: 100n, tags: [] });
  await setImmediate();
  assert.equal(patches(), 1, 'not yet');
  clock.advance(200);
  await becomes('700');
  assert.equal(patches(), 2);
});

test('what somebody else wrote is put right', async (t) => {
  const { api, becomes } = publisher(t);
  const annotations = { [annotation]: '5', 'capacity.topolvm.io/gone': '7', theirs: 'x' };
  await api.create(nodes, { metadata: { name: 'a', annotations } });
  await becomes('1000');
  const node = await api.get(nodes, 'a');
  assert.deepEqual(node?.metadata.annotations, { [annotation]: '1000', theirs: 'x' });
});
