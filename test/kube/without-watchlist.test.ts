import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps } from '../../src/kube/resource.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer(['--feature-gates=WatchList=false']);
const { admin } = api;

test('an API server that cannot stream its state is listed, then watched', async (t) => {
  const namespace = await newNamespace(api, 'listed');
  await admin.create(configMaps, { metadata: { name: 'a', namespace } });
  const informer = new Informer({ client: admin, resource: configMaps, namespace, clock: systemClock, log: silentLog });
  t.after(() => informer.stop());
  informer.start();
  await informer.whenSynced(AbortSignal.timeout(10_000));
  assert.ok(informer.get(`${namespace}/a`));

  await admin.delete(configMaps, 'a', { namespace });
  await informer.until(`${namespace}/a`, (object) => object === undefined, AbortSignal.timeout(10_000));
  assert.deepEqual([informer.reconnects, informer.relists], [1, 0]);
});
