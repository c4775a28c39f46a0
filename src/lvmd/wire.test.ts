import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Client, credentials } from '@grpc/grpc-js';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { servingEngine } from './testing/serving-engine.ts';

/** Messages byte by byte, as TopoLVM's clients send and expect them, independent of our own code generator. */
const number = (field: number, value: bigint | number) => Buffer.concat([varint(field << 3), varint(value)]);
const text = (field: number, value: string | Buffer) =>
  Buffer.concat([varint((field << 3) | 2), varint(Buffer.from(value).length), Buffer.from(value)]);
const message = (...fields: Buffer[]) => Buffer.concat(fields);

function varint(value: bigint | number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

const gibibyte = 1024n ** 3n;

async function start(t: TestContext) {
  const pool = new InMemoryPool('ssd', 100n * gibibyte);
  const { socketPath } = await servingEngine(t, [pool, new InMemoryPool('hdd', 50n * gibibyte)]);
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure());
  t.after(() => client.close());
  const bytes = (buffer: Buffer) => buffer;
  const deadline = () => ({ deadline: Date.now() + 120_000 });
  const call = (method: string, request: Buffer) =>
    new Promise<Buffer>((resolve, reject) => {
      client.makeUnaryRequest(`/proto.${method}`, bytes, bytes, request, deadline(), (error, response) =>
        error ? reject(error) : resolve(response ?? Buffer.alloc(0)),
      );
    });
  const stream = (method: string, request: Buffer) =>
    client.makeServerStreamRequest(`/proto.${method}`, bytes, bytes, request, deadline());
  return { pool, call, stream };
}

const dataVolume = (sizeBytes: bigint, ...tags: string[]) =>
  message(
    text(1, 'data'),
    number(2, sizeBytes / gibibyte),
    ...tags.map((tag) => text(5, tag)),
    number(6, sizeBytes),
    text(7, '/dev/ssd/data'),
    text(8, '-wi-a-----'),
  );

test('CreateLV accepts the size in bytes', async (t) => {
  const { call, pool } = await start(t);
  const request = message(text(1, 'data'), text(3, 'a'), text(3, 'b'), text(4, 'ssd'), number(6, 3n * gibibyte));
  assert.deepEqual(await call('LVService/CreateLV', request), text(1, dataVolume(3n * gibibyte, 'a', 'b')));
  assert.equal(pool.get('data')?.sizeBytes, 3n * gibibyte);
});

test('CreateLV accepts GiB from a client up to 0.36.4', async (t) => {
  const { call } = await start(t);
  const request = message(text(1, 'data'), number(2, 2));
  assert.deepEqual(await call('LVService/CreateLV', request), text(1, dataVolume(2n * gibibyte)));
});

test('CreateLV uses the bytes of a client that sends both sizes', async (t) => {
  const { call } = await start(t);
  const request = message(text(1, 'data'), number(2, 2), number(6, gibibyte + 1n));
  assert.deepEqual(await call('LVService/CreateLV', request), text(1, dataVolume(gibibyte + 1n)));
});

test('ResizeLV accepts bytes and GiB', async (t) => {
  const { call } = await start(t);
  await call('LVService/CreateLV', message(text(1, 'data'), number(6, gibibyte)));
  const inBytes = message(text(1, 'data'), text(3, 'ssd'), number(7, 2n * gibibyte));
  assert.deepEqual(await call('LVService/ResizeLV', inBytes), number(1, 2n * gibibyte));
  const inGib = message(text(1, 'data'), number(2, 3));
  assert.deepEqual(await call('LVService/ResizeLV', inGib), number(1, 3n * gibibyte));
});

test('CreateLVSnapshot', async (t) => {
  const { call, pool } = await start(t);
  await call('LVService/CreateLV', message(text(1, 'data'), number(6, gibibyte)));
  const request = message(
    text(1, 'copy'),
    text(2, 'a'),
    text(3, 'ssd'),
    text(4, 'data'),
    text(6, 'ro'),
    number(7, gibibyte),
  );
  const snapshot = message(
    ...[text(1, 'copy'), number(2, 1), text(5, 'a'), number(6, gibibyte), text(7, '/dev/ssd/copy')],
    ...[text(8, '-wi-a-----'), text(1000, 'data')],
  );
  assert.deepEqual(await call('LVService/CreateLVSnapshot', request), text(1, snapshot));
  assert.equal(pool.get('copy')?.readOnly, true);
});

test('RemoveLV answers with an empty message, or with a field of ours if it erased', async (t) => {
  const { call, pool } = await start(t);
  for (const [erases, answer] of [
    [false, Buffer.alloc(0)],
    [true, number(1000, 1)],
  ] as const) {
    pool.erases = erases;
    await call('LVService/CreateLV', message(text(1, 'data'), number(6, 1)));
    assert.deepEqual(await call('LVService/RemoveLV', message(text(1, 'data'), text(2, 'ssd'))), answer);
    assert.deepEqual(pool.list(), []);
  }
});

test('GetLVList and GetFreeBytes answer for the default class and for a named one', async (t) => {
  const { call } = await start(t);
  await call('LVService/CreateLV', message(text(1, 'data'), number(6, gibibyte)));
  assert.deepEqual(await call('VGService/GetLVList', message()), text(1, dataVolume(gibibyte)));
  assert.deepEqual(await call('VGService/GetLVList', text(1, 'hdd')), Buffer.alloc(0));
  assert.deepEqual(await call('VGService/GetFreeBytes', message()), number(1, 99n * gibibyte));
  assert.deepEqual(await call('VGService/GetFreeBytes', text(1, 'hdd')), number(1, 50n * gibibyte));
});

test('Watch reports the free space at once and after each change', async (t) => {
  const { call, stream } = await start(t);
  const watch = stream('VGService/Watch', message());
  watch.on('error', () => undefined);
  const messages = watch[Symbol.asyncIterator]();
  const state = (freeGib: bigint) =>
    message(
      number(1, freeGib * gibibyte),
      text(2, message(number(1, freeGib * gibibyte), text(2, 'ssd'), number(3, 100n * gibibyte))),
      text(2, message(number(1, 50n * gibibyte), text(2, 'hdd'), number(3, 50n * gibibyte))),
    );
  assert.deepEqual((await messages.next()).value, state(100n));
  await call('LVService/CreateLV', message(text(1, 'data'), number(6, 4n * gibibyte)));
  assert.deepEqual((await messages.next()).value, state(96n));
  watch.cancel();
});
