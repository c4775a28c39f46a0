import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps } from '../../src/kube/resource.ts';
import { compactEtcd, connect, newNamespace, restartApiServer, startApiServer } from './api-server.ts';
import { Link } from './link.ts';

const api = await startApiServer();
const { admin } = api;
const count = 10_000;
const payload = 'x'.repeat(1_000);

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('10,000 objects sync, take little memory, and a relist after 410 Gone reports only the differences', async (t) => {
  const namespace = await newNamespace(api, 'scale');
  const nameOf = (index: number) => `object-${index}`;
  const createdMs = await took(() =>
    inFlight(64, count, (index) =>
      admin.create(configMaps, { metadata: { name: nameOf(index), namespace }, data: { payload } }),
    ),
  );

  const link = await Link.to(t, api.connection);
  const informer = new Informer({
    client: connect(t, link.connection),
    resource: configMaps,
    namespace,
    fieldSelector: 'metadata.name!=kube-root-ca.crt',
    project: (object) => ({ name: object.metadata.name, sizeBytes: object.data?.payload?.length ?? 0 }),
    clock: systemClock,
    log: silentLog,
  });
  t.after(() => informer.stop());
  const reported = { added: 0, updated: 0, deleted: 0 };
  informer.onChange(({ kind }) => {
    reported[kind] += 1;
  });

  const before = heapBytes();
  informer.start();
  const syncedMs = await took(() => informer.whenSynced(AbortSignal.timeout(180_000)));
  const heldBytes = heapBytes() - before;
  assert.equal(informer.size, count);
  assert.deepEqual(reported, { added: count, updated: 0, deleted: 0 });
  assert.ok(heldBytes / count < 600, `${heldBytes / count} bytes are kept of each object`);

  link.cut();
  await inFlight(64, 1_000, (index) => admin.delete(configMaps, nameOf(index), { namespace }));
  const touch = { type: 'merge', body: { data: { touched: 'yes' } } } as const;
  await inFlight(64, 500, (index) => admin.patch(configMaps, nameOf(5_000 + index), touch, { namespace }));
  compactEtcd(api);
  await restartApiServer(api);
  link.mend();
  const last = `${namespace}/${nameOf(999)}`;
  await informer.until(last, (object) => object === undefined, AbortSignal.timeout(180_000));
  assert.equal(informer.size, count - 1_000);
  assert.equal(informer.relists, 1);
  assert.deepEqual(reported, { added: count, updated: 500, deleted: 1_000 });

  t.diagnostic(
    `created in ${seconds(createdMs)}, synced in ${seconds(syncedMs)}, ${Math.round(heldBytes / count)} bytes per object`,
  );
});

function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Calls it for 0, 1, 2, …, with limited concurrency. */
async function inFlight(limit: number, total: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < total) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
