import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { RpcClient } from '../rpc/client.ts';
import { VGService } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { servingEngine } from './testing/serving-engine.ts';

const mebibyte = 1024n ** 2n;
const { signal } = new AbortController();

async function start(t: TestContext) {
  const pool = new InMemoryPool('ssd', 1000n * mebibyte);
  const { socketPath } = await servingEngine(t, [pool]);
  const client = new RpcClient(VGService, socketPath);
  t.after(() => client[Symbol.dispose]());
  return { pool, groups: client.methods };
}

const volume = (id: string) => ({ id, sizeBytes: mebibyte, tags: [] });

test('a watch survives failures of the engine', async (t) => {
  const { pool, groups } = await start(t);
  const watch = groups.watch({}, { signal })[Symbol.asyncIterator]();
  await watch.next();
  pool.failure = new Error('the disk is gone');
  await assert.rejects(pool.create(volume('a')));
  await pool.create(volume('b'));
  assert.equal((await watch.next()).value?.freeBytes, 999n * mebibyte);
  await watch.return?.();
});

test('each listener receives the last state, and a burst of changes causes few messages', async (t) => {
  const { pool, groups } = await start(t);
  const watches = [1, 2, 3].map(() => groups.watch({}, { signal })[Symbol.asyncIterator]());
  await Promise.all(watches.map((watch) => watch.next()));
  for (let i = 0; i < 200; i++) await pool.create(volume(`v${i}`));
  for (const watch of watches) {
    let messages = 0;
    for (;;) {
      messages++;
      if ((await watch.next()).value?.freeBytes === 800n * mebibyte) break;
    }
    assert.ok(messages < 200, `${messages} messages for one burst`);
    await watch.return?.();
  }
});

test('a thin pool reports what it can still promise, and zero once it fills up', async (t) => {
  const { pool, groups } = await start(t);
  const thin = { dataPercent: 12.5, metadataPercent: 3.25, sizeBytes: 500n, overprovisionBytes: 4000n };
  const reported = async () => {
    const watch = groups.watch({}, { signal })[Symbol.asyncIterator]();
    const { value } = await watch.next();
    await watch.return?.();
    const { $typeName: _, ...thinPoolItem } = value?.items[0]?.thinPool ?? {};
    return { freeBytes: value?.freeBytes, thinPoolItem };
  };
  pool.capacity = () => ({ sizeBytes: 500n, freeBytes: 4000n, thin });
  assert.deepEqual(await reported(), { freeBytes: 4000n, thinPoolItem: thin });
  pool.capacity = () => ({ sizeBytes: 500n, freeBytes: 0n, thin });
  assert.deepEqual(await reported(), { freeBytes: 0n, thinPoolItem: { ...thin, overprovisionBytes: 0n } });
  assert.equal((await groups.getFreeBytes({}, { timeoutMs: 120_000 })).freeBytes, 0n);
});
