import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { systemClock } from '../../base/clock.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { Informer } from '../../kube/informer.ts';
import { type Node, nodes } from '../../kube/resource.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { nodeFactsOf, nodePublisher } from './node-publisher.ts';

const annotation = 'capacity.topolvm.io/ssd';
const never = new AbortController().signal;

function publisher(t: TestContext) {
  const api = new InMemoryApi<Node>();
  const clock = new ManualClock();
  const pool = new InMemoryPool('ssd', 1000n);
  const node = new Informer({
    client: api.client,
    resource: nodes,
    project: nodeFactsOf,
    clock: systemClock,
    log: silentLog,
  });
  const work = nodePublisher({
    nodeName: 'a',
    client: api.client,
    node,
    pools: new Pools([pool]),
    wanted: () => new Map([[annotation, String(pool.capacity().freeBytes)]]),
    log: silentLog,
  });
  const published = new Workers([work], { clock, log: silentLog, random: () => 0 });
  published.start();
  node.start();
  t.after(async () => {
    await published.stop(0);
    await node.stop();
    assert.equal(clock.timers, 0);
  });
  const waitFor = (bytes: string) => node.until('a', (facts) => facts?.annotations[annotation] === bytes, never);
  const patches = () => api.calls.filter((call) => call === 'patch a').length;
  return { api, clock, pool, node, waitFor, patches };
}

test('a node publishes its capacity when its Node is created, and again when it is re-created', async (t) => {
  const { api, waitFor } = publisher(t);
  await api.create(nodes, { metadata: { name: 'a' } });
  await waitFor('1000');
  await api.delete(nodes, 'a');
  await api.patch(nodes, 'a', { type: 'merge', body: { metadata: { finalizers: null } } }); // as the controller does
  await api.create(nodes, { metadata: { name: 'a' } });
  await waitFor('1000');
});

test('a burst of new volumes causes one write', async (t) => {
  const { api, clock, pool, waitFor, patches } = publisher(t);
  await api.create(nodes, { metadata: { name: 'a' } });
  await waitFor('1000');
  for (const id of ['v1', 'v2', 'v3']) await pool.create({ id, sizeBytes: 100n, tags: [] });
  await setImmediate();
  assert.equal(patches(), 1, 'not yet');
  clock.advance(200);
  await waitFor('700');
  assert.equal(patches(), 2);
});

test('annotations that others changed are corrected', async (t) => {
  const { api, waitFor } = publisher(t);
  const annotations = { [annotation]: '5', 'capacity.topolvm.io/gone': '7', theirs: 'x' };
  await api.create(nodes, { metadata: { name: 'a', annotations } });
  await waitFor('1000');
  const node = await api.get(nodes, 'a');
  assert.deepEqual(node?.metadata.annotations, { [annotation]: '1000', theirs: 'x' });
});

test('the finalizer is set with the first write and again after it is lost, and other finalizers are kept', async (t) => {
  const { api, node, waitFor, patches } = publisher(t);
  await api.create(nodes, { metadata: { name: 'a', finalizers: ['theirs'] } });
  await waitFor('1000');
  const finalizers = async () => (await api.get(nodes, 'a'))?.metadata.finalizers;
  assert.deepEqual(await finalizers(), ['theirs', 'topolvm.cybozu.com/node']);
  assert.equal(patches(), 1, 'with the capacity');

  await api.patch(nodes, 'a', { type: 'merge', body: { metadata: { finalizers: null } } });
  await node.until('a', (facts) => facts?.finalizers.length === 0, never);
  await node.until('a', (facts) => facts?.finalizers.includes('topolvm.cybozu.com/node') ?? false, never);
});

test('a Node that is being deleted gets no finalizer, and its capacity is still updated', async (t) => {
  const { api, clock, pool, node, waitFor } = publisher(t);
  await api.create(nodes, { metadata: { name: 'a', finalizers: ['theirs'], deletionTimestamp: 'now' } });
  await waitFor('1000');
  await pool.create({ id: 'v1', sizeBytes: 100n, tags: [] });
  clock.advance(200);
  await waitFor('900');
  assert.deepEqual(node.get('a')?.finalizers, ['theirs']);
});
