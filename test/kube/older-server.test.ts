import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps } from '../../src/kube/resource.ts';
import { compactEtcd, newNamespace, startApiServer } from './api-server.ts';

// Like servers before they could stream lists, and serve older resource versions from memory.
const api = await startApiServer(['--feature-gates=WatchList=false,ListFromCacheSnapshot=false']);
const { admin } = api;

test('an API server without streaming lists is listed, then watched', async (t) => {
  const namespace = await newNamespace(api, 'listed');
  await admin.create(configMaps, { metadata: { name: 'a', namespace } });
  const informer = new Informer({ client: admin, resource: configMaps, namespace, clock: systemClock, log: silentLog });
  t.after(() => informer.stop());
  informer.start();
  await informer.whenSynced(AbortSignal.timeout(120_000));
  assert.ok(informer.get(`${namespace}/a`));

  await admin.delete(configMaps, 'a', { namespace });
  await informer.until(`${namespace}/a`, (object) => object === undefined, AbortSignal.timeout(120_000));
  assert.deepEqual([informer.reconnects, informer.relists], [1, 0]);
});

test('a list whose first page etcd has compacted (410 Gone) starts over, and is complete', async () => {
  const namespace = await newNamespace(api, 'expired');
  const names = Array.from({ length: 25 }, (_, index) => `object-${String(index).padStart(2, '0')}`);
  await Promise.all(names.map((name) => admin.create(configMaps, { metadata: { name, namespace } })));

  let read = 0;
  const { items } = await admin.list(configMaps, {
    namespace,
    fieldSelector: 'metadata.name!=kube-root-ca.crt',
    pageSize: 10,
    project: ({ metadata }) => {
      read += 1;
      if (read === 10) compactEtcd(api);
      return metadata.name;
    },
  });
  assert.deepEqual(items, names);
  assert.equal(read, 10 + names.length);
});
