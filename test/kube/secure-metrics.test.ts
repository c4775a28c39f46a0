import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { Component } from '../../worlds/cluster/component.ts';
import { fetchInside } from '../../worlds/cluster/fetch-inside.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { namespace, renderText } from '../chart/chart.ts';
import { startApiServer, startController } from './api-server.ts';

const { cluster } = await startApiServer();
const { kubectl } = cluster;
let controller: Component;

/** A client with only the rights that the chart grants. */
before(async () => {
  await kubectl('create', 'namespace', namespace);
  const chart = join(cluster.dir, 'chart.yaml');
  await writeFile(chart, await renderText(['metrics.secure=true'], '--no-hooks'));
  await kubectl('apply', '--server-side', `--filename=${chart}`);
  for (const account of ['prometheus', 'somebody']) await kubectl('create', 'serviceaccount', account);
  await kubectl('create', 'clusterrole', 'metrics-reader', '--verb=get', '--non-resource-url=/metrics');
  await kubectl(
    ...['create', 'clusterrolebinding', 'prometheus', '--clusterrole=metrics-reader'],
    '--serviceaccount=default:prometheus',
  );
  controller = await startController(cluster, '--secure-metrics-server');
  await eventually('it serves', async () => (await get('/healthz')).startsWith('200'), {
    explain: () => controller.tail(),
  });
});

test('only authorized clients can read metrics', async () => {
  assert.match(await get('/metrics', await tokenOf('prometheus')), /^200 [^]*^moorage_watch_synced/m);
  assert.match(
    await get('/metrics', await tokenOf('somebody')),
    /^403 not allowed; grant .* nonResourceURL \/metrics$/,
  );
  assert.match(await get('/metrics', 'invented'), /^401 /);
  assert.match(await get('/metrics'), /^401 /);
});

test("the kubelet's probes need no token", async () => {
  assert.equal(await get('/healthz'), '200 ok');
  await eventually('it is ready', async () => (await get('/readyz')) === '200 ok');
});

test('nothing is served without TLS', async () => {
  await assert.rejects(get('/healthz', '', 'http'), /fetch failed/);
});

async function tokenOf(account: string): Promise<string> {
  return (await kubectl('create', 'token', account)).trim();
}

function get(path: string, token = '', scheme = 'https'): Promise<string> {
  return fetchInside(cluster.namespaces, `${scheme}://127.0.0.1:8080${path}`, token);
}
