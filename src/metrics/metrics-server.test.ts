import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { createLog } from '../base/log.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { selfSigned } from '../http/self-signed.ts';
import type { Decision } from '../kube/token-reviews.ts';
import { gauge } from './metric.ts';
import { MetricsServer } from './metrics-server.ts';

test('the server serves metrics and health', async (t) => {
  const answer = gauge({ name: 'answer', help: 'All of it.', read: () => [{ value: 42 }] });
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [answer], log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return [response.status, await response.text()];
  };
  assert.match(String((await get('/metrics'))[1]), /^answer 42$/m);
  const { headers } = await fetch(`http://127.0.0.1:${port}/metrics`);
  assert.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
  assert.equal((await get('/'))[0], 404);
});

test('a process that is not ready gives the reason, and is still healthy', async (t) => {
  let reason: string | undefined = 'not trusted yet';
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [], unready: () => reason, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return [response.status, await response.text()];
  };
  assert.deepEqual(await get('/readyz'), [503, 'not trusted yet\n']);
  assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
  reason = undefined;
  assert.deepEqual(await get('/readyz'), [200, 'ok\n']);
});

test('a process with a stuck part is not healthy', async (t) => {
  const stuck = () => 'queue volumes: pvc-1 has made no progress for 16 min';
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [], stuck, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const response = await fetch(`http://127.0.0.1:${port}/healthz`);
  assert.deepEqual([response.status, await response.text()], [503, `${stuck()}\n`]);
});

test('secured metrics are encrypted and need a permitted token; probes need no token', async (t) => {
  const certificate = await selfSigned({
    commonName: 'a',
    dnsName: 'localhost',
    nowMs: Date.now(),
    validForMs: 60_000,
  });
  const reviewed: string[] = [];
  const mayGet = async (token: string, path: string): Promise<Decision> => {
    reviewed.push(`${token} ${path}`);
    return token === 'good' ? 'allowed' : token === 'late' ? 'busy' : 'forbidden';
  };
  const answer = gauge({ name: 'answer', help: 'All of it.', read: () => [{ value: 42 }] });
  const secured = { certificate, mayGet };
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [answer], secured, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const get = async (path: string, authorization?: string) => {
    const headers = authorization === undefined ? {} : { authorization };
    const asked = request({ host: '127.0.0.1', port, path, headers, ca: certificate.cert, servername: 'localhost' });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    return { status: response.statusCode, body: await text(response), headers: response.headers };
  };
  assert.match((await get('/metrics', 'Bearer good')).body, /^answer 42$/m);
  assert.equal((await get('/metrics', 'Bearer bad')).status, 403);
  assert.equal((await get('/metrics', 'Bearer late')).status, 503);
  for (const none of [undefined, '', 'good', 'Basic good', 'Bearer ', 'Bearer good bad']) {
    const { status, headers, body } = await get('/metrics', none);
    assert.deepEqual([status, headers['www-authenticate'], body.includes('answer')], [401, 'Bearer', false], `${none}`);
  }
  assert.deepEqual(reviewed, ['good /metrics', 'bad /metrics', 'late /metrics']);
  for (const probe of ['/healthz', '/readyz']) assert.equal((await get(probe)).status, 200);
  await assert.rejects(fetch(`http://127.0.0.1:${port}/healthz`));
});

test('a metric that cannot be read fails only the scrape', async (t) => {
  const complaints: string[] = [];
  const log = createLog('test', 'error', (line) => complaints.push(JSON.parse(line).msg));
  const broken = gauge({ name: 'broken', help: 'x', read: () => Promise.reject(new Error('no disk')) });
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [broken], log });
  const { port } = await server.listen();
  t.after(() => server.stop());
  assert.equal((await fetch(`http://127.0.0.1:${port}/metrics`)).status, 500);
  assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
  assert.deepEqual(complaints, ['no disk']);
});

test('an address that is in use fails the start', async (t) => {
  const first = new MetricsServer({ address: '127.0.0.1:0', metrics: [], log: silentLog });
  const { port } = await first.listen();
  t.after(() => first.stop());
  const second = new MetricsServer({ address: `127.0.0.1:${port}`, metrics: [], log: silentLog });
  await assert.rejects(second.listen(), { code: 'EADDRINUSE' });
});
