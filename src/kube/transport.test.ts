import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { json, refusal, reset, ScriptedServer, silence, watch } from '../../test/kube/scripted-server.ts';
import { systemClock } from '../base/clock.ts';
import { codeOf } from '../base/errors.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import type { CredentialSource } from './connection.ts';
import { StreamSilent, Transport } from './transport.ts';

function transportTo(
  t: TestContext,
  server: ScriptedServer,
  options: { credentials?: CredentialSource; clock?: ManualClock } = {},
) {
  const { credentials, clock = systemClock } = options;
  const connection = { ...server.connection, ...(credentials && { credentials }) };
  const transport = new Transport({ connection, clock, log: silentLog, timeoutMs: 20_000 });
  t.after(() => transport.close());
  return transport;
}

const get = { method: 'GET', path: '/version' } as const;
const post = { method: 'POST', path: '/api/v1/namespaces', body: {} } as const;

test('after a connection reset a read is retried, but a write is not, as it may have arrived', async (t) => {
  const server = await ScriptedServer.start(t, reset, reset, json({ major: '1' }));
  assert.deepEqual(await transportTo(t, server).call(get), { major: '1' });
  assert.equal(server.requests.length, 3);

  const other = await ScriptedServer.start(t, reset, json({}));
  await assert.rejects(transportTo(t, other).call(post), { code: 'Unavailable' });
  assert.equal(other.requests.length, 1);
});

test('after 429 a write is retried when the server allows it', async (t) => {
  const server = await ScriptedServer.start(
    t,
    refusal(429, 'TooManyRequests', { 'retry-after': '1' }),
    json({ ok: 1 }),
  );
  const startedAt = performance.now();
  assert.deepEqual(await transportTo(t, server).call(post), { ok: 1 });
  assert.ok(performance.now() - startedAt >= 990);
});

test('a 429 with a delay beyond the deadline fails at once', async (t) => {
  const server = await ScriptedServer.start(t, refusal(503, 'ServiceUnavailable', { 'retry-after': '60' }));
  await assert.rejects(transportTo(t, server).call(get), { code: 'Unavailable', status: 503 });
  assert.equal(server.requests.length, 1);
});

test('a server that answers "retry at once" is not called in a hot loop', async (t) => {
  const clock = new ManualClock();
  const server = await ScriptedServer.start(
    t,
    refusal(429, 'TooManyRequests', { 'retry-after': '0' }),
    json({ ok: 1 }),
  );
  const answer = transportTo(t, server, { clock }).call(post);
  while (clock.timers < 2) await nextTurn(); // the deadline, and the delay before the retry
  assert.equal(server.requests.length, 1);
  clock.advance(10_000);
  assert.deepEqual(await answer, { ok: 1 });
});

test('a request refused without Retry-After is not retried', async (t) => {
  const server = await ScriptedServer.start(t, refusal(500, 'InternalError'), json({}));
  await assert.rejects(transportTo(t, server).call(get), { code: 'Internal', reason: 'InternalError' });
  assert.equal(server.requests.length, 1);
});

test('a request without an answer ends at its deadline', async (t) => {
  const clock = new ManualClock();
  const arrived = Promise.withResolvers<void>();
  const server = await ScriptedServer.start(t, () => arrived.resolve());
  const answer = transportTo(t, server, { clock }).call(post).catch(codeOf);
  await arrived.promise;
  clock.advance(19_999);
  assert.equal(clock.timers, 1);
  clock.advance(1);
  assert.equal(await answer, 'DeadlineExceeded');
  assert.equal(clock.timers, 0);
});

test('a refused token is read again, once', async (t) => {
  let current = 'old';
  const credentials = { read: async () => ({ tls: {}, token: current }), refused: () => void (current = 'new') };
  const server = await ScriptedServer.start(t, refusal(401, 'Unauthorized'), json({}), refusal(401, 'Unauthorized'));
  const transport = transportTo(t, server, { credentials });
  await transport.call(post);
  assert.deepEqual(server.tokens, ['Bearer old', 'Bearer new']);
  await assert.rejects(transport.call(post), { code: 'PermissionDenied' });
  assert.equal(server.requests.length, 4);
});

test('the error text of a proxy is passed on', async (t) => {
  const server = await ScriptedServer.start(t, (response) => void response.writeHead(502).end('<b>bad gateway</b>'));
  await assert.rejects(transportTo(t, server).call(get), /refused GET \/version: <b>bad gateway<\/b>/);
});

test('a silent stream is abandoned, and a cut stream is an error', async (t) => {
  const server = await ScriptedServer.start(
    t,
    watch([{}]),
    watch([{}], (response) => response.socket?.destroy()),
  );
  const transport = transportTo(t, server);
  await assert.rejects(drain(transport.stream(get, { idleTimeoutMs: 1_000 })), StreamSilent);
  await assert.rejects(drain(transport.stream(get, { idleTimeoutMs: 60_000 })), { code: 'Unavailable' });
});

test('a stream that its reader leaves or aborts closes its connection', async (t) => {
  const closed: Promise<unknown>[] = [];
  const server = await ScriptedServer.start(t, (response, request) => {
    closed.push(once(response, 'close'));
    watch([{}])(response, request);
  });
  const transport = transportTo(t, server);
  for await (const _ of transport.stream(get, { idleTimeoutMs: 60_000 })) break;
  await closed[0];

  const abort = new AbortController();
  const reason = new Error('enough');
  const reading = drain(transport.stream({ ...get, signal: abort.signal }, { idleTimeoutMs: 60_000 }));
  setImmediate(() => abort.abort(reason));
  assert.equal(await reading.catch((error: unknown) => error), reason);
});

test('requests that hang do not keep a watch from starting', async (t) => {
  const server = await ScriptedServer.start(t, (response, request) =>
    request.method === 'GET' ? watch([{}])(response, request) : silence(response, request),
  );
  const transport = transportTo(t, server);
  const hanging = Array.from({ length: 20 }, () => transport.call(post).catch(codeOf));
  for await (const _ of transport.stream(get, { idleTimeoutMs: 60_000 })) break;
  await transport.close();
  assert.deepEqual(new Set(await Promise.all(hanging)), new Set(['Unavailable']));
});

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}
