import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  type Answer,
  bookmark,
  configMap,
  json,
  refusal,
  ScriptedServer,
  watch,
} from '../../test/kube/scripted-server.ts';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { KubeClient } from './client.ts';
import { Informer, type InformerOptions, InformerStopped } from './informer.ts';
import { type ConfigMap, configMaps, type Stored } from './resource.ts';

const soon = () => AbortSignal.timeout(120_000);
const added = (name: string, resourceVersion: number) => ({ type: 'ADDED', object: configMap(name, resourceVersion) });
const gone = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' };

async function informerOf(t: TestContext, ...answers: [Answer, ...Answer[]]) {
  return informerWith(t, {}, ...answers);
}

type Options = Pick<InformerOptions<ConfigMap, Stored<ConfigMap>>, 'idleTimeoutMs' | 'project'>;

async function informerWith(t: TestContext, options: Options, ...answers: [Answer, ...Answer[]]) {
  const server = await ScriptedServer.start(t, ...answers);
  const client = new KubeClient({ connection: server.connection, clock: systemClock, log: silentLog });
  const informer = new Informer({ ...options, client, resource: configMaps, clock: systemClock, log: silentLog });
  t.after(async () => {
    await informer.stop();
    await client.close();
  });
  const reported: string[] = [];
  informer.onChange(({ kind, key }) => reported.push(`${kind} ${key}`));
  const has = (key: string) => informer.until(key, (object) => object !== undefined, soon());
  return { server, informer, reported, has };
}

test('a server that streams its state gets no other request', async (t) => {
  const { server, informer, reported } = await informerOf(t, watch([added('a', 3), added('b', 5), bookmark(7, true)]));
  informer.start();
  await informer.whenSynced(soon());
  assert.deepEqual(reported, ['added default/a', 'added default/b']);
  assert.equal(server.requests.length, 1);
  const { timeoutSeconds, ...query } = server.query(0);
  assert.ok(Number(timeoutSeconds) >= 300);
  assert.deepEqual(query, {
    watch: 'true',
    allowWatchBookmarks: 'true',
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
  });
});

test('changes before the end of the streamed state are part of it', async (t) => {
  const { informer, reported } = await informerOf(
    t,
    watch([
      added('a', 3),
      added('b', 5),
      { type: 'DELETED', object: configMap('a', 6) },
      { type: 'MODIFIED', object: configMap('b', 7) },
      bookmark(7, true),
    ]),
  );
  informer.start();
  await informer.whenSynced(soon());
  assert.deepEqual(reported, ['added default/b']);
});

test('a server that cannot stream its state is listed page by page, then watched', async (t) => {
  const { server, informer, has } = await informerOf(
    t,
    refusal(422, 'Invalid'),
    json({ metadata: { resourceVersion: '9', continue: 'more' }, items: [configMap('a', 3)] }),
    json({ metadata: { resourceVersion: '9' }, items: [configMap('b', 5)] }),
    watch([added('c', 11)]),
  );
  informer.start();
  await has('default/c');
  assert.equal(informer.size, 3);
  assert.equal(server.query(2).continue, 'more');
  assert.equal(server.query(3).resourceVersion, '9');
});

test('a server that ignores the request for its state and streams only changes is listed too', async (t) => {
  const { informer } = await informerWith(
    t,
    { idleTimeoutMs: 1_000 },
    watch([]),
    json({ metadata: { resourceVersion: '9' }, items: [configMap('a', 3)] }),
    watch([]),
  );
  informer.start();
  await informer.whenSynced(soon());
  assert.equal(informer.size, 1);
});

test('after two silent connections in a row everything is read again', async (t) => {
  const { server, informer, reported, has } = await informerWith(
    t,
    { idleTimeoutMs: 1_000 },
    watch([added('a', 1003), bookmark(1007, true)]),
    watch([]),
    watch([added('b', 3), bookmark(7, true)]),
  );
  informer.start();
  await has('default/b');
  assert.equal(server.query(1).resourceVersion, '1007');
  assert.equal(server.query(2).sendInitialEvents, 'true');
  assert.deepEqual(reported, ['added default/a', 'deleted default/a', 'added default/b']);
});

test('a watch that is cut within an event resumes after the last complete event', async (t) => {
  const { server, informer, reported, has } = await informerOf(
    t,
    watch([added('a', 3), bookmark(7, true), added('b', 8)], (response) => {
      response.write('{"type":"DELETED","object":{"metadata":{"na', () => response.socket?.destroy());
    }),
    watch([added('c', 9)]),
  );
  informer.start();
  await has('default/c');
  assert.equal(server.query(1).resourceVersion, '8');
  assert.deepEqual(reported, ['added default/a', 'added default/b', 'added default/c']);
});

test('a watch that ends resumes from its last bookmark', async (t) => {
  const { server, informer, has } = await informerOf(
    t,
    watch([added('a', 3), bookmark(7, true), bookmark(42)], (response) => response.end()),
    watch([added('b', 43)]),
  );
  informer.start();
  await has('default/b');
  assert.equal(server.query(1).resourceVersion, '42');
  assert.deepEqual([informer.reconnects, informer.relists], [1, 0]);
});

for (const [how, answer] of [
  ['an event', watch([{ type: 'ERROR', object: gone }])],
  ['a status', refusal(410, 'Expired')],
] as const) {
  test(`after 410 Gone as ${how} everything is read again and only differences are reported`, async (t) => {
    const { server, informer, reported, has } = await informerOf(
      t,
      watch([added('a', 3), added('b', 4), bookmark(7, true)], (response) => response.end()),
      answer,
      watch([added('b', 4), added('c', 20), bookmark(21, true)]),
    );
    informer.start();
    await has('default/c');
    assert.equal(server.query(2).sendInitialEvents, 'true');
    assert.equal(server.query(2).resourceVersion, undefined);
    assert.deepEqual(reported, ['added default/a', 'added default/b', 'deleted default/a', 'added default/c']);
    assert.equal(informer.relists, 1);
  });
}

test('objects are cached without their managedFields', async (t) => {
  const { informer } = await informerOf(t, watch([added('a', 3), bookmark(7, true)]));
  informer.start();
  await informer.whenSynced(soon());
  assert.deepEqual(informer.list(), [
    { metadata: { name: 'a', namespace: 'default', uid: 'uid-of-a', resourceVersion: '3' } },
  ]);
});

test('nothing is kept of an object without a projection, and one that loses it is reported as deleted', async (t) => {
  const isKept = (object: Stored<ConfigMap>) => Number(object.metadata.resourceVersion) % 2 === 1;
  const { informer, reported, has } = await informerWith(
    t,
    { project: (object) => (isKept(object) ? object : undefined) },
    watch([added('a', 3), added('b', 4), bookmark(7, true)], (response) => response.end()),
    watch([
      { type: 'MODIFIED', object: configMap('a', 8) },
      { type: 'MODIFIED', object: configMap('b', 9) },
      { type: 'DELETED', object: configMap('a', 10) },
    ]),
  );
  informer.start();
  await has('default/b');
  assert.deepEqual(reported, ['added default/a', 'deleted default/a', 'added default/b']);
  assert.equal(informer.size, 1);
});

test('a handler that is added late receives the existing objects', async (t) => {
  const { informer } = await informerOf(t, watch([added('a', 3), bookmark(7, true)]));
  informer.start();
  await informer.whenSynced(soon());
  const late: string[] = [];
  informer.onChange(({ kind, key }) => late.push(`${kind} ${key}`));
  assert.deepEqual(late, ['added default/a']);
});

test('waiting ends when the informer stops, when time is up, and when the condition throws', async (t) => {
  const { informer } = await informerOf(t, watch([added('a', 3), bookmark(7, true)]));
  informer.start();
  const never = informer.until('default/x', () => false, soon());
  const tooLong = informer.until('default/x', () => false, AbortSignal.timeout(1));
  const wrong = informer.until('default/a', () => JSON.parse('no JSON') as boolean, soon());
  await Promise.all([assert.rejects(tooLong, { name: 'TimeoutError' }), assert.rejects(wrong, SyntaxError)]);
  await Promise.all([assert.rejects(never, InformerStopped), informer.stop()]);
});

test('an informer that is stopped before it is synced fails its waiters', async (t) => {
  const { informer } = await informerOf(t, watch([]));
  informer.start();
  await Promise.all([assert.rejects(informer.whenSynced(soon()), InformerStopped), informer.stop()]);
});
