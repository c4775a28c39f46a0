import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog, silentLog } from '../base/log.ts';
import { MetricsServer } from './metrics-server.ts';

test('figures and health are there to be asked for', async (t) => {
  const answer = { name: 'answer', help: 'All of it.', type: 'gauge', read: () => [{ value: 42 }] } as const;
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

test('a process that is not ready says why, and is healthy all the same', async (t) => {
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

test('a process of which a part does not move any more is not healthy', async (t) => {
  const stuck = () => 'queue volumes: pvc-1 has made no progress for 16 min';
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [], stuck, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const response = await fetch(`http://127.0.0.1:${port}/healthz`);
  assert.deepEqual([response.status, await response.text()], [503, `${stuck()}\n`]);
});

test('a figure that cannot be read fails the scrape, and nothing else', async (t) => {
  const complaints: string[] = [];
  const log = createLog('test', 'error', (line) => complaints.push(JSON.parse(line).msg));
  const broken = { name: 'broken', help: '', type: 'gauge', read: () => Promise.reject(new Error('no disk')) } as const;
  const server = new MetricsServer({ address: '127.0.0.1:0', metrics: [broken], log });
  const { port } = await server.listen();
  t.after(() => server.stop());
  assert.equal((await fetch(`http://127.0.0.1:${port}/metrics`)).status, 500);
  assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
  assert.deepEqual(complaints, ['no disk']);
});

test('an address that is taken fails the start', async (t) => {
  const first = new MetricsServer({ address: '127.0.0.1:0', metrics: [], log: silentLog });
  const { port } = await first.listen();
  t.after(() => first.stop());
  const second = new MetricsServer({ address: `127.0.0.1:${port}`, metrics: [], log: silentLog });
  await assert.rejects(second.listen(), { code: 'EADDRINUSE' });
});
