import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps } from '../../src/kube/resource.ts';
import { newNamespace, startApiServer } from './api-server.ts';

// The highest probability that it accepts: one request in fifty.
const api = await startApiServer(['--goaway-chance=0.02']);
const { admin } = api;

test('the API server does send GOAWAY to HTTP/2 clients', async () => {
  const { server, credentials } = api.connection;
  const session = connect(server, (await credentials.read()).tls);
  const goneAway = once(session, 'goaway', { signal: AbortSignal.timeout(120_000) });
  const asking = async () => {
    while (!session.closed) await once(session.request({ ':path': '/version' }).resume(), 'close');
  };
  await Promise.all([goneAway, asking()]);
  session.destroy();
});

test('no request and no watch fails when the API server sends GOAWAY at random', async (t) => {
  const namespace = await newNamespace(api, 'goaway');
  const informer = new Informer({ client: admin, resource: configMaps, namespace, clock: systemClock, log: silentLog });
  t.after(() => informer.stop());
  informer.start();
  await informer.whenSynced(AbortSignal.timeout(120_000));

  const names = Array.from({ length: 500 }, (_, index) => `object-${index}`);
  await Promise.all(names.map((name) => admin.create(configMaps, { metadata: { name, namespace } })));

  const seen = (name: string) =>
    informer.until(`${namespace}/${name}`, (object) => object !== undefined, AbortSignal.timeout(120_000));
  await Promise.all(names.map(seen));
  assert.deepEqual([informer.reconnects, informer.relists], [0, 0]);
});
