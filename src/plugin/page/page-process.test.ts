import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { eventually } from '../../../worlds/host/eventually.ts';
import { harbour } from '../../../worlds/page/harbour.ts';
import { MemoryApi } from '../../../worlds/page/memory-api.ts';
import { nodeEntries } from '../../../worlds/page/objects.ts';
import { logicalVolumes } from '../../api/logical-volume.ts';
import { nodeStorages } from '../../api/node-storage.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { KubeClient } from '../../kube/client.ts';
import { pods } from '../../kube/resource.ts';
import type { Message, Moment, PageEvacuation, PageNode, PageVolumeDetails, TableName } from './model.ts';
import { Page } from './page-process.ts';

/** The page of a cluster, read as a browser does. */
async function reading(t: TestContext, api: MemoryApi, clock = systemClock) {
  const connection = await api.listen();
  const client = new KubeClient({ connection, clock: systemClock, log: silentLog, timeoutMs: 120_000 });
  const page = new Page({
    ...{ client, clock, html: '', port: 0, cluster: 'here', version: '1' },
  });
  const address = await page.start();
  t.after(async () => {
    await page.stop();
    await client.close();
    await api.stop();
  });
  const [base = '', token = ''] = address.split('/#token=');
  const headers = { authorization: `Bearer ${token}` };
  const messages: Message[] = [];
  const follow = async () => {
    const { body } = await fetch(`${base}/api/stream`, { headers });
    let rest = '';
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      messages.push(...lines.map((line) => JSON.parse(line) as Message));
    }
  };
  const following = follow().catch(() => {}); // it ends with the page
  t.after(() => following);
  const until = (what: string, happened: (message: Message) => boolean) =>
    eventually(what, async () => messages.find(happened));
  const ask = async <T>(path: string): Promise<readonly [number, T]> => {
    const response = await fetch(`${base}${path}`, { headers });
    return [response.status, (await response.json()) as T];
  };
  const rows = (table: TableName) =>
    Object.assign({}, ...messages.map((each) => (each.kind === 'rows' && each.table === table ? each.rows : {})));
  return { messages, until, ask, rows };
}

function isOf<Name extends TableName>(
  message: Message,
  table: Name,
): message is Extract<Message, { kind: 'rows'; table: Name }> {
  return message.kind === 'rows' && message.table === table;
}

function harbourApi(): MemoryApi {
  const api = new MemoryApi();
  for (const { resource, object } of harbour(Date.now())) api.put(resource, object);
  return api;
}

test('a stream begins with everything, and goes on with changes only', async (t) => {
  const api = harbourApi();
  const { messages, until, rows } = await reading(t, api);
  await until('everything is sent', ({ kind }) => kind === 'ready');
  assert.deepEqual(messages[0], { kind: 'cluster', name: 'here', version: '1' });
  assert.equal(Object.keys(rows('volumes')).length, 19);
  assert.equal(rows('pools')['harbor-2/ssd'].usedBytes, 3581 * 1024 ** 3);
  assert.deepEqual(Object.keys(rows('orphans')).length, 3);
  await until(
    'waits are explained',
    (each) => isOf(each, 'waiting') && Object.values(each.rows).every(({ code }) => code !== ''),
  );
  assert.deepEqual(Object.keys(rows('waiting')), [
    'claim/ci/scratch',
    'claim/search/data-index-4',
    'claim/shop/data-orders-3',
  ]);
  const summary = messages.find(({ kind }) => kind === 'summary');
  assert.equal(summary?.kind === 'summary' && summary.summary.volumesByHealth.Missing, 1);

  const before = messages.length;
  api.put(volumeMoves, {
    metadata: { name: 'm', namespace: 'ci', creationTimestamp: new Date().toISOString() },
    spec: { claimName: 'cache' },
  });
  await until('the move is sent', (each) => each.kind === 'rows' && 'ci/m' in each.rows);
  assert.equal(messages.length, before + 1, 'nothing but the move');
  api.remove(logicalVolumes, 'pvc-ci-cache');
  const gone = await until('the volume is gone', (each) => each.kind === 'rows' && each.gone.includes('pvc-ci-cache'));
  assert.equal(gone.kind === 'rows' && gone.table, 'volumes');
});

test('one volume is answered with its timeline, and one node with its history', async (t) => {
  const api = harbourApi();
  const { ask, until } = await reading(t, api);
  await until('everything is sent', ({ kind }) => kind === 'ready');
  const [, volume] = await ask<PageVolumeDetails>('/api/volume?name=shop/data-orders-0');
  assert.equal(volume.sizeBytes, 400 * 1024 ** 3);
  assert.deepEqual(
    volume.timeline.map(({ kind, isWarning }: Moment) => (isWarning ? 'warning' : kind)),
    [
      'claimed',
      'scheduled',
      'created',
      'created',
      'bound',
      'mounted',
      'moved',
      'moved',
      'grown',
      'grown',
      'snapshotted',
      'warning',
    ],
  );
  const [, node] = await ask<PageNode>('/api/node?name=harbor-3');
  assert.deepEqual(Object.keys(node.history), ['ssd', 'thin']);
  assert.equal(node.erasures[0]?.donePercent, 58);
  assert.deepEqual(await ask('/api/node?name=none'), [
    404,
    { message: 'node none has not reported its pools; see the logs of its agent' },
  ]);
  const [, plan] = await ask<PageEvacuation>('/api/evacuation?node=harbor-2');
  assert.deepEqual([plan.moves.length, plan.staying.length], [2, 3]);
  assert.equal((await ask('/api/volume'))[0], 400);
});

test('what a pool used is recorded when its node reports it', async (t) => {
  const api = new MemoryApi();
  const pool = { deviceClass: 'ssd', type: 'thick', health: 'Healthy', size: '10Gi', free: '5Gi' } as const;
  const report = (used: string) => {
    for (const { resource, object } of nodeEntries('a', [{ ...pool, used }])) api.put(resource, object);
  };
  report('1Gi');
  const { ask, until } = await reading(t, api);
  await until('everything is sent', ({ kind }) => kind === 'ready');
  report('2Gi');
  const used = await eventually('both are recorded', async () => {
    const [, { history }] = await ask<PageNode>('/api/node?name=a');
    const samples = history['ssd'] ?? [];
    return samples.length === 2 && samples.map(({ usedBytes }) => usedBytes / 1024 ** 3);
  });
  assert.deepEqual(used, [1, 2]);
});

test('a pool that grows while the page is open gets a forecast', async (t) => {
  const api = new MemoryApi();
  const pool = { deviceClass: 'ssd', type: 'thick', health: 'Healthy', size: '10Gi', free: '5Gi' } as const;
  const report = (used: string) => {
    for (const { resource, object } of nodeEntries('a', [{ ...pool, used }])) api.put(resource, object);
  };
  report('1Gi');
  let laterMs = 0;
  const { until } = await reading(t, api, { ...systemClock, now: () => Date.now() + laterMs });
  await until('everything is sent', ({ kind }) => kind === 'ready');
  laterMs = 3_600_000;
  report('4Gi');
  const sent = await until('it is sent', (each) => isOf(each, 'pools') && each.rows['a/ssd']?.forecast !== undefined);
  const { forecast } = (isOf(sent, 'pools') && sent.rows['a/ssd']) || {};
  assert.equal(forecast?.of, 'space');
  const hoursLeft = ((forecast?.fullAtMs ?? 0) - Date.now() - laterMs) / 3_600_000;
  assert.equal(Math.round(hoursLeft), 2); // 3 GiB in an hour, 6 GiB left
});

test('what may not be read is named, and the rest is shown', async (t) => {
  const api = harbourApi();
  api.refuse(pods, 403, 'pods is forbidden');
  api.refuse(volumeMoves, 404, 'the server does not have the kind');
  const { messages, until, rows } = await reading(t, api);
  await until('the rest is sent', ({ kind }) => kind === 'ready');
  const failures = messages.findLast(({ kind }) => kind === 'failures');
  assert.ok(failures?.kind === 'failures');
  assert.deepEqual(
    failures.failures.map(({ resources, message }) => [
      resources,
      message.startsWith('the API server refused: pods is forbidden; grant this right'),
    ]),
    [[['pods'], true]],
  );
  assert.equal(Object.keys(rows('volumes')).length, 19);
  api.refuse(pods, undefined);
  await until('it is read as soon as it may be', (each) => each.kind === 'failures' && each.failures.length === 0);
});

test('what follows from something that cannot be read is unknown, not empty', async (t) => {
  const api = harbourApi();
  api.refuse(logicalVolumes, 403, 'forbidden');
  api.refuse(nodeStorages, 403, 'forbidden');
  const { messages, until, rows } = await reading(t, api);
  await until('the rest is sent', ({ kind }) => kind === 'ready');
  const isUnknown = (each: Message, ...names: TableName[]) =>
    each.kind === 'summary' && isDeepStrictEqual(each.summary.unknown, names);
  assert.ok(messages.find((each) => isUnknown(each, 'pools', 'volumes', 'orphans')));
  assert.deepEqual(rows('orphans'), {}, 'a PersistentVolume is no orphan because nobody knows its volume');
  const failures = messages.findLast(({ kind }) => kind === 'failures');
  assert.deepEqual(failures?.kind === 'failures' && failures.failures.map(({ resources }) => resources), [
    ['logicalvolumes', 'nodestorages'],
  ]);
  api.refuse(logicalVolumes, undefined);
  await until('volumes are known', (each) => isUnknown(each, 'pools', 'orphans'));
  await until('they are sent', (each) => isOf(each, 'volumes') && Object.keys(each.rows).length === 19);
});
