import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { systemClock } from '../../src/base/clock.ts';
import { Listeners } from '../../src/base/listeners.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { volumeEvents } from '../../src/controller/events/volume-events.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import { FilesystemMismatch } from '../../src/filesystem/format.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { type EventContent, writeEvent } from '../../src/kube/events.ts';
import { Informer } from '../../src/kube/informer.ts';
import { configMaps, events, nodes, persistentVolumeClaims } from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { filesystemErrors, type Preparation } from '../../src/node/reconcile/filesystem-errors.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { connect, newNamespace, startApiServer, withToken } from './api-server.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
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

test('an Event for a namespace that is deleted or being deleted is given up', async () => {
  const namespace = await newNamespace(api, 'leaving');
  const metadata = { name: 'x', namespace, finalizers: ['example.com/hold'] };
  await admin.create(configMaps, { metadata });
  const about = { resource: configMaps, name: 'x', namespace, uid: undefined };
  const report = (message: string) => writeEvent(admin, reporter, about, { ...full, message }, Date.now(), signal);
  await admin.delete(namespaces, namespace);
  await report('terminating');
  await admin.patch(configMaps, 'x', { type: 'merge', body: { metadata: { finalizers: null } } }, { namespace });
  await eventually('it is gone', async () => (await admin.get(namespaces, namespace)) === undefined);
  await report('gone');
});

test('an Event about an object without a namespace is shown by kubectl describe', async () => {
  const { metadata } = await admin.create(nodes, { metadata: { name: 'machine' } });
  const about = { resource: nodes, name: 'machine', uid: metadata.uid };
  await writeEvent(admin, reporter, about, { ...full, message: 'ü'.repeat(2_000) }, Date.now(), signal);
  const shown = await api.cluster.kubectl('describe', 'node', 'machine');
  assert.match(shown, /Warning +PoolFull .*topolvm\.io\/test +ü{510}…/);
});

/** A controller and the agent of a node, each with the rights of its ServiceAccount. The agent's pool is in memory. */
async function controllerAndAgent(t: TestContext, nodeName: string) {
  const { kubectl } = api.cluster;
  const parts = ['namespace', 'crd', 'rbac', 'node-policy'].map((name) => `-f${join(deploy, `${name}.yaml`)}`);
  await kubectl('apply', ...parts);
  await kubectl('wait', '--for=condition=Established', 'crd/logicalvolumes.topolvm.io');
  await admin.create(nodes, { metadata: { name: nodeName } });
  const clientOf = async (account: string, ...bound: string[]) => {
    const token = (await kubectl('-n', 'moorage-system', 'create', 'token', account, ...bound)).trim();
    return connect({ after }, await withToken(api.connection, token));
  };
  const watch = (client: KubeClient) => {
    const volumes = new Informer({ client, resource: logicalVolumes, clock: systemClock, log: silentLog });
    volumes.start();
    t.after(() => volumes.stop());
    return volumes;
  };
  const options = { clock: systemClock, log: silentLog, random: Math.random };

  const controller = await clientOf('moorage-controller');
  const all = watch(controller);
  const reported = volumeEvents({ client: controller, volumes: all, reporter, clock: systemClock });
  const leader = new Workers([reported], options);
  const leading = new AbortController();
  const led = leader.lead(leading.signal);

  const agent = await clientOf('moorage-node', '--bound-object-kind=Node', `--bound-object-name=${nodeName}`);
  const pool = new InMemoryPool('ssd', 1024n ** 3n);
  const prepared = new Listeners<Preparation>();
  const volumes = watch(agent);
  const work = new Workers(
    [
      volumeWork({ client: agent, volumes, pools: new Pools([pool], 'ssd'), log: silentLog }),
      filesystemErrors({ client: agent, volumes, prepared }),
    ],
    options,
  );
  work.start();
  t.after(async () => {
    leading.abort();
    await Promise.all([led, work.stop(0)]);
  });
  await all.whenSynced(signal); // a leader reports only what happens after it has read the objects
  return { pool, prepared };
}

test('what happens to a volume is shown by kubectl describe for its claim, each time once', async (t) => {
  const { pool, prepared } = await controllerAndAgent(t, 'a');
  const namespace = await newNamespace(api, 'shop');
  await admin.create(persistentVolumeClaims, {
    metadata: { name: 'db', namespace },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
  });
  const described = () => api.cluster.kubectl('describe', 'pvc', 'db', '--namespace', namespace);
  const shows = (what: RegExp) => eventually(`it shows ${what}`, async () => what.test(await described()));

  const metadata = {
    annotations: { 'moorage.dev/claim': `${namespace}/db` },
    finalizers: ['topolvm.io/logicalvolume'],
  };
  const spec = { nodeName: 'a', size: '1Mi', deviceClass: 'ssd' };
  const created = await admin.create(logicalVolumes, {
    metadata: { ...metadata, name: 'pvc-1' },
    spec: { ...spec, name: 'pvc-1' },
  });
  const volumeId = created.metadata.uid;
  await shows(/Normal +VolumeCreated .* created a volume of 1Mi on node a, device class ssd/);

  const error = new FilesystemMismatch(volumeId, 'ext4', 'xfs');
  for (let i = 0; i < 3; i++) prepared.notify({ volumeId, error }); // the kubelet retries
  await shows(
    /Warning +FilesystemRefused .* node a cannot use the filesystem of the volume: volume .* holds xfs, ext4/,
  );
  prepared.notify({ volumeId });
  const isWithoutError = async () =>
    !(await admin.get(logicalVolumes, 'pvc-1'))?.metadata.annotations?.['moorage.dev/filesystem-error'];
  await eventually('the error is removed', isWithoutError);

  await admin.delete(logicalVolumes, 'pvc-1');
  await shows(/Normal +VolumeRemoved .* removed the volume from node a/);

  pool.erases = true;
  await admin.create(logicalVolumes, { metadata: { ...metadata, name: 'pvc-2' }, spec: { ...spec, name: 'pvc-2' } });
  const isCreated = async () => Boolean((await admin.get(logicalVolumes, 'pvc-2'))?.status?.volumeID);
  await eventually('pvc-2 is created', isCreated);
  await admin.delete(logicalVolumes, 'pvc-2');
  await shows(/Normal +VolumeErased .* erased the volume and removed it from node a/);
  const { items } = await admin.list(events, { namespace });
  const ours = items.filter(({ reportingController }) => reportingController === reporter.controller);
  assert.equal(ours.length, 4, 'the same sentence is not repeated');
});
