import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EventContent, writeEvent } from '../../src/kube/events.ts';
import { events, nodes } from '../../src/kube/resource.ts';
import { configMaps } from '../../src/kube/testing/resources.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;
const signal = new AbortController().signal;
const reporter = { controller: 'topolvm.io/test', instance: 'test-0' };

const full: EventContent = {
  type: 'Warning',
  reason: 'PoolFull',
  action: 'Provisioning',
  message: 'pool ssd has 1 GiB free, 2 GiB requested; extend the volume group',
};

test('repeated reports, by any replica, are one Event', async () => {
  const namespace = await newNamespace(api, 'dedup');
  const { metadata } = await admin.create(configMaps, { metadata: { name: 'x', namespace } });
  const about = { resource: configMaps, name: 'x', namespace, uid: metadata.uid };
  for (const instance of ['test-0', 'test-1', 'test-0']) {
    await writeEvent(admin, { ...reporter, instance }, about, full, Date.now(), signal);
  }
  const [event, ...others] = (await admin.list(events, { namespace })).items;
  assert.deepEqual(others, []);
  assert.equal(event?.regarding?.uid, metadata.uid);
  assert.equal(event?.note, full.message);

  await writeEvent(admin, reporter, about, { ...full, message: 'something else' }, Date.now(), signal);
  assert.equal((await admin.list(events, { namespace })).items.length, 2);
});

test('an Event about an object without a namespace is shown by kubectl describe', async () => {
  const { metadata } = await admin.create(nodes, { metadata: { name: 'machine' } });
  const about = { resource: nodes, name: 'machine', uid: metadata.uid };
  await writeEvent(admin, reporter, about, { ...full, message: 'ü'.repeat(2_000) }, Date.now(), signal);
  const shown = await api.cluster.kubectl('describe', 'node', 'machine');
  assert.match(shown, /Warning +PoolFull .*topolvm\.io\/test +ü{510}…/);
});
