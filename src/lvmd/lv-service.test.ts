import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { WireType } from '@bufbuild/protobuf/wire';
import * as fc from 'fast-check';
import { codeOf, messageOf } from '../base/errors.ts';
import { CommandTimedOut } from '../base/exec.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { RpcClient } from '../rpc/client.ts';
import { CreateLVRequestSchema, LVService } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { servingEngine } from './testing/serving-engine.ts';

const options = { timeoutMs: 120_000 };
const mebibyte = 1024n ** 2n;

async function start(t: TestContext) {
  const pool = new InMemoryPool('ssd', 1024n * mebibyte);
  const { socketPath } = await servingEngine(t, [pool]);
  const client = new RpcClient(LVService, socketPath);
  t.after(() => client[Symbol.dispose]());
  return { pool, lvm: client.methods };
}

test('a retried creation finds its volume', async (t) => {
  const { lvm, pool } = await start(t);
  const wanted = { name: 'data', sizeBytes: mebibyte, tags: ['a'] };
  const first = await lvm.createLV(wanted, options);
  assert.deepEqual(await lvm.createLV(wanted, options), first);
  assert.equal(pool.list().length, 1);
});

const invalid: Record<string, { name?: string; sizeBytes?: bigint; tags?: string[]; deviceClass?: string }> = {
  'no name': { name: '' },
  'a name with shell characters': { name: '$(reboot)' },
  'a name that is an option': { name: '-f' },
  'a name with a newline': { name: 'a\nvgremove' },
  'a name that leaves its group': { name: '../other/data' },
  'a name that is too long': { name: 'a'.repeat(200) },
  'a name of ten megabytes': { name: 'a'.repeat(10_000_000) },
  'no size': { sizeBytes: 0n },
  'a negative size': { sizeBytes: -1n },
  'a tag with shell characters': { tags: ['a;b'] },
  'a tag of ten megabytes': { tags: ['a'.repeat(10_000_000)] },
  'a tag that would have the volume erased': { tags: ['moorage.dev/erasing'] },
  'a tag that would make the volume look unfinished': { tags: ['moorage.dev/source=x'] },
  'a million tags': { tags: Array.from({ length: 1_000_000 }, () => 'a') },
  'a device class that no file can name': { deviceClass: '../ssd' },
  'a device class of ten megabytes': { deviceClass: 'a'.repeat(10_000_000) },
};
for (const [what, field] of Object.entries(invalid)) {
  test(`${what} is refused with a short message`, async (t) => {
    const { lvm, pool } = await start(t);
    const request = { name: 'data', sizeBytes: mebibyte, ...field };
    const error = await lvm.createLV(request, options).catch((error: unknown) => error);
    assert.equal(codeOf(error), 'InvalidArgument');
    assert.ok(messageOf(error).length < 600, messageOf(error));
    assert.deepEqual(pool.list(), []);
  });
}

test('an unknown field is refused, because it may matter to the caller', async (t) => {
  const { lvm, pool } = await start(t);
  const request = create(CreateLVRequestSchema, { name: 'data', sizeBytes: mebibyte });
  request.$unknown = [{ no: 99, wireType: WireType.Varint, data: new Uint8Array([1]) }];
  await assert.rejects(lvm.createLV(request, options), { code: 'InvalidArgument', message: /field 99/ });
  assert.deepEqual(pool.list(), []);
});

test('only valid names reach the engine, whatever is requested', async (t) => {
  const { lvm, pool } = await start(t);
  const hostile = fc.record({
    name: fc.string({ unit: 'binary', maxLength: 300 }),
    sizeBytes: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    sizeGb: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    tags: fc.array(fc.string({ maxLength: 50 }), { maxLength: 5 }),
    deviceClass: fc.constantFrom('', 'ssd', 'nix', ' '),
  });
  const expected = new Set(['InvalidArgument', 'NotFound', 'ResourceExhausted']);
  await fc.assert(
    fc.asyncProperty(hostile, async (request) => {
      const error = await lvm.createLV(request, options).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (error !== undefined) assert.ok(expected.has(codeOf(error)), messageOf(error));
    }),
    { numRuns: 300 },
  );
  for (const { id } of pool.list()) assert.match(id, /^[A-Za-z0-9_+.][A-Za-z0-9_+.-]*$/);
});

test('a missing class, volume or source is NotFound', async (t) => {
  const { lvm } = await start(t);
  const notFound = { code: 'NotFound' };
  await assert.rejects(lvm.createLV({ name: 'a', sizeBytes: 1n, deviceClass: 'nix' }, options), notFound);
  await assert.rejects(lvm.removeLV({ name: 'a' }, options), notFound);
  await assert.rejects(lvm.resizeLV({ name: 'a', sizeBytes: 1n }, options), notFound);
  await assert.rejects(lvm.createLVSnapshot({ name: 'a', sourceVolume: 'b', accessType: 'ro' }, options), notFound);
});

test('an unfinished volume after a crash is in no list and can be removed', async (t) => {
  const { lvm, pool } = await start(t);
  await lvm.createLV({ name: 'half', sizeBytes: mebibyte }, options);
  pool.get = () => undefined;
  await lvm.removeLV({ name: 'half' }, options);
  assert.deepEqual(pool.list(), []);
  await assert.rejects(lvm.removeLV({ name: 'half' }, options), { code: 'NotFound' });
});

test('a snapshot requires a valid access type', async (t) => {
  const { lvm } = await start(t);
  await lvm.createLV({ name: 'data', sizeBytes: mebibyte }, options);
  const wanted = { name: 'copy', sourceVolume: 'data' };
  await assert.rejects(lvm.createLVSnapshot({ ...wanted, accessType: 'rx' }, options), { code: 'InvalidArgument' });
  const { snapshot } = await lvm.createLVSnapshot({ ...wanted, accessType: 'rw' }, options);
  assert.deepEqual([snapshot?.sizeBytes, snapshot?.origin], [mebibyte, 'data']);
});

test('an error of the engine keeps its code', async (t) => {
  const { lvm, pool } = await start(t);
  await assert.rejects(lvm.createLV({ name: 'big', sizeBytes: 2048n * mebibyte }, options), {
    code: 'ResourceExhausted',
  });
  pool.failure = new CommandTimedOut(['lvm', 'lvcreate'], 60_000);
  await assert.rejects(lvm.createLV({ name: 'slow', sizeBytes: mebibyte }, options), { code: 'DeadlineExceeded' });
});

test('the engine call of a cancelled request is aborted', async (t) => {
  const given = Promise.withResolvers<AbortSignal>();
  const pool = new InMemoryPool('ssd', mebibyte);
  pool.create = (_, signal?: AbortSignal) => {
    if (signal) given.resolve(signal);
    return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
  };
  const { socketPath } = await servingEngine(t, [pool]);
  using client = new RpcClient(LVService, socketPath);
  const caller = new AbortController();
  const call = client.methods.createLV({ name: 'data', sizeBytes: 1n }, { ...options, signal: caller.signal });
  const signal = await given.promise;
  caller.abort();
  await assert.rejects(call, { name: 'AbortError' });
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  assert.equal(codeOf(signal.reason), 'Cancelled');
});
