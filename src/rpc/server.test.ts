import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import http2 from 'node:http2';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { fromBinary } from '@bufbuild/protobuf';
import { systemClock } from '../base/clock.ts';
import { InvalidInput } from '../base/errors.ts';
import { createLog } from '../base/log.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { CallFailed, RpcClient } from './client.ts';
import { Controller, GetPluginInfoResponseSchema, Identity } from './gen/csi/v1/csi_pb.ts';
import { type AnsweredCall, type Implementation, RpcServer, type RpcServerOptions } from './server.ts';
import { serving } from './testing/serving.ts';

const timeoutMs = 120_000;

async function serve(
  t: TestContext,
  implementation: Implementation<typeof Identity>,
  options: Partial<Pick<RpcServerOptions, 'clock' | 'maxRequestBytes' | 'onAnswered'>> = {},
) {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-rpc-'));
  const socketPath = join(directory, 'sockets', 'csi.sock');
  const server = new RpcServer({ socketPath, clock: systemClock, log: silentLog, ...options });
  await server.add(Identity, implementation).listen();
  const client = new RpcClient(Identity, socketPath);
  t.after(async () => {
    client[Symbol.dispose]();
    await server.stop(0);
    await rm(directory, { recursive: true });
  });
  return { socketPath, server, identity: client.methods };
}

test('a call returns its answer', async (t) => {
  const { identity } = await serve(t, { getPluginInfo: async () => ({ name: 'topolvm.io', vendorVersion: '1' }) });
  const answer = await identity.getPluginInfo({}, { timeoutMs });
  assert.equal(answer.name, 'topolvm.io');
});

test('only the user of the process can open the socket', async (t) => {
  const { socketPath } = await serve(t, {});
  const { mode, uid, gid } = await stat(socketPath);
  assert.deepEqual([mode & 0o777, uid, gid], [0o600, process.geteuid?.(), process.getegid?.()]);
});

test('a socket left by an earlier run is replaced', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-rpc-'));
  t.after(() => rm(directory, { recursive: true }));
  const socketPath = join(directory, 'csi.sock');
  await writeFile(socketPath, 'stale');
  const server = new RpcServer({ socketPath, clock: systemClock, log: silentLog });
  await server.listen();
  assert.ok((await stat(socketPath)).isSocket());
  await server.stop(0);
  await assert.rejects(stat(socketPath), { code: 'ENOENT' });
});

test('a server that stops does not remove the socket of its successor', async (t) => {
  const { socketPath, server, identity } = await serve(t, {});
  const successor = new RpcServer({ socketPath, clock: systemClock, log: silentLog });
  successor.add(Identity, { probe: async () => ({ ready: true }) });
  await successor.listen();
  t.after(() => successor.stop(0));
  await server.stop(0);
  assert.equal((await identity.probe({}, { timeoutMs })).ready, true);
});

test('an error reaches the caller with its code and message', async (t) => {
  const { identity } = await serve(t, {
    probe: async () => {
      throw new InvalidInput('volume_id is empty; name a volume — ünïcode survives');
    },
  });
  await assert.rejects(identity.probe({}, { timeoutMs }), {
    constructor: CallFailed,
    code: 'InvalidArgument',
    message: 'volume_id is empty; name a volume — ünïcode survives',
  });
});

test('the caller gets a status for any thrown value', async (t) => {
  const thrown: unknown[] = [new TypeError('x is not a function'), 'half of a character \ud800', 'x'.repeat(1_000_000)];
  const { identity } = await serve(t, {
    probe: async () => {
      throw thrown.shift();
    },
  });
  const probe = () => identity.probe({}, { timeoutMs });
  await assert.rejects(probe, { code: 'Internal', message: 'x is not a function' });
  await assert.rejects(probe, { code: 'Internal', message: 'half of a character \ufffd' });
  await assert.rejects(probe, { code: 'Internal', message: /^x{4096}$/ });
});

test('an answer that cannot be encoded is an internal error', async (t) => {
  const controller = await serving(t, Controller, { getCapacity: async () => ({ availableCapacity: 2n ** 64n }) });
  await assert.rejects(controller.getCapacity({}, { timeoutMs }), {
    code: 'Internal',
    message: /18446744073709551616/,
  });
});

test('no secret of a request is logged', async (t) => {
  const lines: string[] = [];
  const log = createLog('test', 'debug', (line) => void lines.push(line));
  const controller = await serving(t, Controller, { createVolume: async () => ({}) }, log);
  await controller.createVolume({ name: 'pvc-1', secrets: { passphrase: 'open sesame' } }, { timeoutMs });
  assert.match(lines.join(''), /pvc-1/);
  assert.doesNotMatch(lines.join(''), /sesame/);
});

test('a method without an implementation is Unimplemented', async (t) => {
  const { identity } = await serve(t, {});
  await assert.rejects(identity.probe({}, { timeoutMs }), { code: 'Unimplemented' });
});

test('a caller that disconnects aborts the signal', async (t) => {
  const called = Promise.withResolvers<AbortSignal>();
  const { identity } = await serve(t, {
    probe: async (_request, { signal }) => {
      called.resolve(signal);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw signal.reason;
    },
  });
  const caller = new AbortController();
  const call = identity.probe({}, { timeoutMs, signal: caller.signal });
  const signal = await called.promise;
  caller.abort();
  await assert.rejects(call, { name: 'AbortError' });
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  assert.equal(signal.reason.code, 'Cancelled');
});

test('a passed deadline aborts the signal', async (t) => {
  const clock = new ManualClock();
  const called = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<string>();
  const implementation: Implementation<typeof Identity> = {
    probe: async (_request, { signal }) => {
      called.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      aborted.resolve(signal.reason.code);
      throw signal.reason;
    },
  };
  const { identity } = await serve(t, implementation, { clock });
  const call = identity.probe({}, { timeoutMs });
  await called.promise;
  clock.advance(timeoutMs);
  await assert.rejects(call, { code: 'DeadlineExceeded' });
  assert.equal(await aborted.promise, 'DeadlineExceeded');
});

test('stopping waits for calls in progress', async (t) => {
  const called = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const { identity, server } = await serve(t, {
    probe: async () => {
      called.resolve();
      await finish.promise;
      return { ready: true };
    },
  });
  const call = identity.probe({}, { timeoutMs });
  await called.promise;
  const stopped = server.stop(timeoutMs);
  finish.resolve();
  assert.equal((await call).ready, true);
  await stopped;
});

test('stopping without grace aborts calls in progress', async (t) => {
  const called = Promise.withResolvers<void>();
  const { identity, server } = await serve(t, {
    probe: async (_request, { signal }) => {
      called.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw signal.reason;
    },
  });
  const call = assert.rejects(identity.probe({}, { timeoutMs }), { code: 'Cancelled' });
  await called.promise;
  await server.stop(0);
  await call;
});

/** A raw request, as another client might send it, and its outcome. */
async function post(t: TestContext, socketPath: string, body: Buffer, headers: http2.OutgoingHttpHeaders = {}) {
  const session = http2.connect('http://localhost', { createConnection: () => net.connect(socketPath) });
  t.after(() => session.destroy());
  const request = session.request({
    ':method': 'POST',
    ':path': '/csi.v1.Identity/GetPluginInfo',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
  let status: http2.IncomingHttpHeaders = {};
  request.on('response', (headers) => {
    status = { ...status, ...headers };
  });
  request.on('trailers', (trailers) => {
    status = { ...status, ...trailers };
  });
  request.end(body);
  return { body: await buffer(request), status };
}

/** A gRPC message frame: compression flag, length, bytes. */
function frameOf(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

const emptyMessage = frameOf(Buffer.alloc(0));

// A Go client that dials a path with a custom dialer, as the kubelet does, sends the path as authority.
test('the percent-encoded authority of a Go client is accepted', async (t) => {
  const { socketPath } = await serve(t, { getPluginInfo: async () => ({ name: 'topolvm.io' }) });
  const { body, status } = await post(t, socketPath, emptyMessage, { ':authority': encodeURIComponent(socketPath) });
  assert.equal(status['grpc-status'], '0');
  assert.equal(fromBinary(GetPluginInfoResponseSchema, body.subarray(5)).name, 'topolvm.io');
});

test('an invalid call is refused, and the next one is answered', async (t) => {
  const { socketPath, identity } = await serve(
    t,
    { getPluginInfo: async () => ({ name: 'topolvm.io' }) },
    { maxRequestBytes: 1000 },
  );
  const grpcStatus = async (body: Buffer, headers?: http2.OutgoingHttpHeaders) =>
    (await post(t, socketPath, body, headers)).status['grpc-status'];
  assert.equal(await grpcStatus(frameOf(Buffer.alloc(100_000))), '8', 'too long');
  assert.equal(await grpcStatus(Buffer.alloc(0)), '12', 'no message');
  assert.equal(await grpcStatus(Buffer.concat([emptyMessage, emptyMessage])), '12', 'two messages');
  assert.equal(await grpcStatus(emptyMessage.subarray(0, 3)), '12', 'part of a message');
  assert.equal(await grpcStatus(frameOf(Buffer.from([0xff]))), '3', 'not a message of the request type');
  assert.equal(await grpcStatus(Buffer.from([1, 0, 0, 0, 0]), { 'grpc-encoding': 'br' }), '12', 'unknown compression');
  assert.equal(await grpcStatus(Buffer.from([1, 0, 0, 0, 0]), { 'grpc-encoding': 'gzip' }), '13', 'not gzip');
  assert.equal(await grpcStatus(emptyMessage, { 'grpc-timeout': 'soon' }), '13', 'an invalid timeout');
  assert.equal(await grpcStatus(emptyMessage, { ':path': '/csi.v1.Identity/Nothing' }), '12', 'no such method');
  assert.equal(await grpcStatus(emptyMessage, { ':path': '/\xff\xfe' }), '12', 'a path that is not text');
  assert.equal(await grpcStatus(emptyMessage, { 'x-bin': '!no base64,' }), '0', 'unused metadata');
  const { status } = await post(t, socketPath, emptyMessage, { 'content-type': 'text/plain' });
  assert.equal(status[':status'], 415);
  assert.equal((await identity.getPluginInfo({}, { timeoutMs })).name, 'topolvm.io');
});

test('stopping does not wait for a caller that never ends its request', async (t) => {
  const { socketPath, server } = await serve(t, { probe: async () => ({}) });
  const session = http2.connect('http://localhost', { createConnection: () => net.connect(socketPath) });
  session.on('error', () => undefined); // the server ends the connection
  t.after(() => session.destroy());
  const headers = { ':method': 'POST', ':path': '/csi.v1.Identity/Probe', 'content-type': 'application/grpc' };
  const request = session.request(headers, { endStream: false });
  request.on('error', () => undefined).resume();
  await new Promise((resolve) => session.once('remoteSettings', resolve));
  await server.stop(0);
});

test('stopping does not wait for a caller that never reads its answer', async (t) => {
  const answered = Promise.withResolvers<AnsweredCall>();
  const { socketPath, server } = await serve(
    t,
    { getPluginInfo: async () => ({ name: 'topolvm.io' }) },
    { onAnswered: answered.resolve },
  );
  const session = http2.connect('http://localhost', {
    createConnection: () => net.connect(socketPath),
    settings: { initialWindowSize: 0 },
  });
  session.on('error', () => undefined); // the server ends the connection
  t.after(() => session.destroy());
  const headers = { ':method': 'POST', ':path': '/csi.v1.Identity/GetPluginInfo', 'content-type': 'application/grpc' };
  session
    .request(headers)
    .on('error', () => undefined)
    .end(emptyMessage);
  assert.equal((await answered.promise).code, 'OK');
  await server.stop(0);
});

test('every call is counted once, with its code', async (t) => {
  const answered: AnsweredCall[] = [];
  const { identity } = await serve(
    t,
    {
      getPluginInfo: async () => ({}),
      probe: async () => {
        throw new InvalidInput('no');
      },
    },
    { onAnswered: (call) => answered.push(call) },
  );
  await identity.getPluginInfo({}, { timeoutMs });
  await assert.rejects(identity.probe({}, { timeoutMs }));
  assert.deepEqual(
    answered.map(({ service, method, code }) => `${service} ${method} ${code}`),
    ['csi.v1.Identity GetPluginInfo OK', 'csi.v1.Identity Probe InvalidArgument'],
  );
});

test('a missing or stopped server is unavailable, and a restarted one is found', async (t) => {
  const { identity, server, socketPath } = await serve(t, { probe: async () => ({ ready: true }) });
  await identity.probe({}, { timeoutMs });
  await server.stop(0);
  await assert.rejects(identity.probe({}, { timeoutMs }), { code: 'Unavailable', message: /ENOENT/ });
  const next = new RpcServer({ socketPath, clock: systemClock, log: silentLog });
  await next.add(Identity, { probe: async () => ({ ready: true }) }).listen();
  t.after(() => next.stop(0));
  assert.equal((await identity.probe({}, { timeoutMs })).ready, true);
});
