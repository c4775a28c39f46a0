import assert from 'node:assert/strict';
import { cp, rename, rm } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { compactEtcd, connect, newNamespace, restartApiServer, startApiServer } from './api-server.ts';
import { Link } from './link.ts';
import { RecordedChanges } from './recorded-changes.ts';

const api = await startApiServer();

const soon = () => AbortSignal.timeout(120_000);

/** A namespace with the ConfigMaps a, b and c, and a synced informer for them behind a link that can fail. */
async function watching(t: TestContext, name: string, options: { idleTimeoutMs?: number } = {}) {
  const namespace = await newNamespace(api, name);
  const link = await Link.to(t, api.connection);
  const informer = new Informer({
    ...options,
    client: connect(t, link.connection, 10_000),
    resource: configMaps,
    namespace,
    fieldSelector: 'metadata.name!=kube-root-ca.crt', // Kubernetes creates it in each namespace at some point
    clock: systemClock,
    log: silentLog,
  });
  t.after(() => informer.stop());
  const changes = new RecordedChanges(informer);
  const world = {
    link,
    informer,
    changes,
    write: (key: string) => api.admin.create(configMaps, { metadata: { name: key, namespace } }),
    change: (key: string, value: string) =>
      api.admin.patch(configMaps, key, { type: 'merge', body: { data: { value } } }, { namespace }),
    remove: (key: string) => api.admin.delete(configMaps, key, { namespace }),
    appears: (key: string) => informer.until(`${namespace}/${key}`, (object) => object !== undefined, soon()),
    vanishes: (key: string) => informer.until(`${namespace}/${key}`, (object) => object === undefined, soon()),
    waitFor: (key: string, value: string) =>
      informer.until(`${namespace}/${key}`, (object) => object?.data?.value === value, soon()),
  };
  for (const key of ['a', 'b', 'c']) await world.write(key);
  informer.start();
  await informer.whenSynced(soon());
  assert.deepEqual(changes.news().sort(), ['added a', 'added b', 'added c']);
  return world;
}

test('no fault: each change is reported once, in order', async (t) => {
  const { informer, changes, ...world } = await watching(t, 'no-fault');
  await world.write('d');
  await world.change('d', '1');
  await world.change('d', '2');
  await world.waitFor('d', '2');
  await world.remove('d');
  await world.vanishes('d');
  assert.deepEqual(changes.news(), ['added d', 'updated d', 'updated d', 'deleted d']);
  assert.deepEqual(changes.reportedTwice, []);
  assert.deepEqual([informer.relists, informer.reconnects], [0, 0]);
});

test('connection reset: the watch resumes from its position, without a relist', async (t) => {
  const { link, informer, changes, ...world } = await watching(t, 'reset');
  await world.write('d');
  await world.appears('d');
  changes.news();

  link.cut();
  await world.remove('a');
  await world.change('b', 'while cut');
  link.mend();

  await world.vanishes('a');
  await world.waitFor('b', 'while cut');
  assert.deepEqual(changes.news(), ['deleted a', 'updated b']);
  assert.deepEqual(changes.reportedTwice, []);
  assert.equal(informer.relists, 0);
  assert.ok(informer.reconnects >= 1);
});

test('cable pulled: a dead connection is closed after the idle timeout', async (t) => {
  const { link, changes, ...world } = await watching(t, 'swallow', { idleTimeoutMs: 1_500 });

  link.swallow();
  await world.remove('a');
  await world.vanishes('a');

  assert.deepEqual(changes.news(), ['deleted a']);
  assert.deepEqual(changes.reportedTwice, []);
});

test('410 Gone after compaction: the informer relists, and finds missed deletions', async (t) => {
  const { link, informer, changes, ...world } = await watching(t, 'gone');

  link.cut();
  await world.remove('a');
  await world.remove('b');
  await world.write('b'); // another object of the same name
  await world.write('d');
  compactEtcd(api);
  await restartApiServer(api); // its cache reaches back further than etcd's history
  link.mend();

  await world.appears('d');
  await world.vanishes('a');
  assert.deepEqual(changes.news().sort(), ['added b', 'added d', 'deleted a', 'deleted b']);
  assert.deepEqual(changes.reportedTwice, []);
  assert.equal(informer.relists, 1);
});

test('API server killed and restarted: no change is missed or reported twice', async (t) => {
  const { informer, changes, ...world } = await watching(t, 'killed');
  await world.change('a', 'before');
  await world.waitFor('a', 'before');

  await restartApiServer(api);
  await world.change('a', 'after');
  await world.remove('b');

  await world.waitFor('a', 'after');
  await world.vanishes('b');
  assert.deepEqual(changes.news(), ['updated a', 'updated a', 'deleted b']);
  assert.deepEqual(changes.reportedTwice, []);
  assert.ok(informer.reconnects >= 1);
});

test('etcd restored from a backup: the informer follows it back in time', async (t) => {
  const { changes, ...world } = await watching(t, 'restored', { idleTimeoutMs: 1_500 });
  const backup = `${api.cluster.dir}/etcd-backup`;
  await offline(() => cp(`${api.cluster.dir}/etcd`, backup, { recursive: true }));
  await world.remove('a');
  await world.write('d');
  await world.vanishes('a');
  await world.appears('d');
  changes.news();

  await offline(async () => {
    await rm(`${api.cluster.dir}/etcd`, { recursive: true });
    await rename(backup, `${api.cluster.dir}/etcd`);
  });

  await world.appears('a');
  await world.vanishes('d');
  assert.deepEqual(changes.news().sort(), ['added a', 'deleted d']);
});

test('API server paused (SIGSTOP) and continued: the informer detects the silence, and catches up', async (t) => {
  const { informer, changes, ...world } = await watching(t, 'stopped', { idleTimeoutMs: 1_500 });
  const { apiServer } = api.cluster;

  await apiServer.pause();
  await eventually('the informer connects again', () => Promise.resolve(informer.reconnects > 0));
  await apiServer.resume();
  await world.remove('a');

  await world.vanishes('a');
  assert.deepEqual(changes.news(), ['deleted a']);
  assert.deepEqual(changes.reportedTwice, []);
});

/** Stops the control plane, changes its files, and starts it again. */
async function offline(work: () => Promise<void>): Promise<void> {
  const { apiServer, etcd, controlPlane } = api.cluster;
  await apiServer.kill();
  await etcd.kill();
  await work();
  etcd.start();
  apiServer.start();
  await controlPlane.whenReady();
}
