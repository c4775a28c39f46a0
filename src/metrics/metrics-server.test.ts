import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gauge, Registry } from 'prom-client';
import { silentLog } from '../base/log.ts';
import { MetricsServer } from './metrics-server.ts';

test('figures and health are there to be asked for', async (t) => {
  const registry = new Registry();
  new Gauge({ name: 'answer', help: 'All of it.', registers: [registry] }).set(42);
  const server = new MetricsServer({ address: '127.0.0.1:0', registry, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return [response.status, await response.text()];
  };
  assert.match(String((await get('/metrics'))[1]), /^answer 42$/m);
  assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
  assert.equal((await get('/'))[0], 404);
});

test('an address that is taken fails the start', async (t) => {
  const first = new MetricsServer({ address: '127.0.0.1:0', registry: new Registry(), log: silentLog });
  const { port } = await first.listen();
  t.after(() => first.stop());
  const second = new MetricsServer({ address: `127.0.0.1:${port}`, registry: new Registry(), log: silentLog });
  await assert.rejects(second.listen(), { code: 'EADDRINUSE' });
});
