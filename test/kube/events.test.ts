import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { EventRecorder, type Happening } from '../../src/kube/events.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps, events, nodes } from '../../src/kube/resource.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;

const full: Happening = {
  type: 'Warning',
  reason: 'PoolFull',
  action: 'Provisioning',
  message: 'pool ssd has 1 GiB free, 2 GiB wanted; extend the volume group',
};

function recorder(t: { after(end: () => Promise<void>): void }) {
  const clock = new ManualClock(Date.now());
  const options = { client: admin, controller: 'topolvm.io/test', instance: 'test-0', clock, log: silentLog };
  const recorder = new EventRecorder(options);
  t.after(() => recorder.stop(1_000));
  return { clock, recorder };
}

test('the same thing said again is counted in one Event', async (t) => {
  const namespace = await newNamespace(api, 'dedup');
  const about = await admin.create(configMaps, { metadata: { name: 'x', namespace } });
  const informer = new Informer({ client: admin, resource: events, namespace, clock: systemClock, log: silentLog });
  t.after(() => informer.stop());
  informer.start();
  const written = Promise.withResolvers<string>();
  informer.onChange(({ kind, key }) => kind === 'added' && written.resolve(key));
  const { clock, recorder: says } = recorder(t);

  says.record(configMaps, about, full);
  clock.advance(0);
  const key = await written.promise;
  const first = informer.get(key);
  assert.equal(first?.regarding?.uid, about.metadata.uid);
  assert.equal(first?.note, full.message);
  assert.equal(first?.series, undefined);

  for (let again = 0; again < 99; again += 1) says.record(configMaps, about, full);
  clock.advance(10_000);
  const counted = await informer.until(key, (event) => event?.series !== undefined, AbortSignal.timeout(120_000));
  assert.equal(counted?.series?.count, 100);
  assert.equal(informer.size, 1);
});

test('an Event about an object without a namespace is shown by kubectl describe', async (t) => {
  const about = await admin.create(nodes, { metadata: { name: 'machine' } });
  const { clock, recorder: says } = recorder(t);
  says.record(nodes, about, { ...full, message: 'ü'.repeat(2_000) });
  clock.advance(0);
  await says.stop(120_000);
  assert.match(
    await api.cluster.kubectl('describe', 'node', 'machine'),
    /Warning +PoolFull .*topolvm\.io\/test +ü{510}…/,
  );
});
