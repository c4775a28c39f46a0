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
import { silentLog } from '../base/log.ts';
import { CallFailed, RpcClient } from './client.ts';
import { GetPluginInfoResponseSchema, Identity } from './gen/csi/v1/csi_pb.ts';
import { type Implementation, RpcServer } from './server.ts';

const timeoutMs = 10_000;

async function serve(t: TestContext, implementation: Implementation<typeof Identity>) {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-rpc-'));
  const socketPath = join(directory, 'sockets', 'csi.sock');
  const server = new RpcServer({ socketPath, clock: systemClock, log: silentLog }).add(Identity, implementation);
  await server.listen();
  const client = new RpcClient(Identity, socketPath);
  t.after(async () => {
    client[Symbol.dispose]();
    await server.stop(0);
    await rm(directory, { recursive: true });
  });
  return { socketPath, server, identity: client.methods };
}

test('a call brings its answer back', async (t) => {
  const { identity } = await serve(t, { getPluginInfo: async () => ({ name: 'topolvm.io', vendorVersion: '1' }) });
  const answer = await identity.getPluginInfo({}, { timeoutMs });
  assert.equal(answer.name, 'topolvm.io');
});

test('only our own user can open the socket', async (t) => {
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

test('a server that stops leaves the socket of its successor alone', async (t) => {
  const { socketPath, server, identity } = await serve(t, {});
  const successor = new RpcServer({ socketPath, clock: systemClock, log: silentLog });
  successor.add(Identity, { probe: async () => ({ ready: true }) });
  await successor.listen();
  t.after(() => successor.stop(0));
  await server.stop(0);
  assert.equal((await identity.probe({}, { timeoutMs })).ready, true);
});

test('an error reaches the caller as code and sentence', async (t) => {
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

test('a method without implementation is Unimplemented', async (t) => {
  const { identity } = await serve(t, {});
  await assert.rejects(identity.probe({}, { timeoutMs }), { code: 'Unimplemented' });
});

test('a caller that goes away aborts the signal', async (t) => {
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
  const aborted = Promise.withResolvers<string>();
  const { identity } = await serve(t, {
    probe: async (_request, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      aborted.resolve(signal.reason.code);
      throw signal.reason;
    },
  });
  await assert.rejects(identity.probe({}, { timeoutMs: 50 }), { code: 'DeadlineExceeded' });
  assert.equal(await aborted.promise, 'DeadlineExceeded');
});

test('stopping waits for the calls under way', async (t) => {
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

test('stopping without grace aborts the calls under way', async (t) => {
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

// A Go client that dials a path through a dialer of its own, as the kubelet does, sends the path as authority.
test('the percent-encoded authority of a Go client is accepted', async (t) => {
  const { socketPath } = await serve(t, { getPluginInfo: async () => ({ name: 'topolvm.io' }) });
  const session = http2.connect('http://localhost', { createConnection: () => net.connect(socketPath) });
  t.after(() => session.close());
  const request = session.request({
    ':method': 'POST',
    ':path': '/csi.v1.Identity/GetPluginInfo',
    ':authority': encodeURIComponent(socketPath),
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const trailers = Promise.withResolvers<http2.IncomingHttpHeaders>();
  request.on('trailers', trailers.resolve);
  request.end(Buffer.alloc(5)); // an empty message: not compressed, no bytes
  const body = await buffer(request);

  assert.equal((await trailers.promise)['grpc-status'], '0');
  assert.equal(fromBinary(GetPluginInfoResponseSchema, body.subarray(5)).name, 'topolvm.io');
});
