import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { annotatedNode } from '../../src/controller/capacity/annotated-capacities.ts';
import { publishedCapacity } from '../../src/controller/capacity/plan.ts';
import { startupTaints } from '../../src/controller/capacity/startup-taints.ts';
import {
  registeredNode,
  scheduledClass,
  storageCapacities,
  trackingDriver,
} from '../../src/controller/capacity/storage-capacities.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  type CsiStorageCapacity,
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  nodes,
  storageClasses,
} from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;
const namespace = await newNamespace(api, 'moorage-system');
const labels = { 'csi.storage.k8s.io/drivername': driverName };

const startupTaint = 'startup-taint.cluster-autoscaler.kubernetes.io/moorage';

/** For nodes that Cluster Autoscaler only imagines. */
const template = { 'cluster-autoscaler.kubernetes.io/template-node fast': '8Gi' };

await admin.create(csiDrivers, { metadata: { name: driverName }, spec: { storageCapacity: true } });
await storageClass('fast', { 'topolvm.io/device-class': 'ssd' });
for (const name of ['a', 'b']) await node(name, { ssd: '1073741824' });
await admin.create(csiStorageCapacities, ofProvisioner('csisc-old', 'a', 'fast'));
await admin.create(csiStorageCapacities, ofProvisioner('csisc-stale', 'gone', 'fast'));

const parts = { client: admin, clock: systemClock, log: silentLog };
const watched = {
  nodes: new Informer({ ...parts, resource: nodes, project: annotatedNode }),
  csiNodes: new Informer({ ...parts, resource: csiNodes, project: registeredNode }),
  classes: new Informer({ ...parts, resource: storageClasses, project: scheduledClass }),
  driver: new Informer({ ...parts, resource: csiDrivers, project: trackingDriver }),
  published: new Informer({ ...parts, resource: csiStorageCapacities, namespace, project: publishedCapacity }),
};
for (const informer of Object.values(watched)) informer.start();
const workers = new Workers(
  [
    storageCapacities({
      namespace,
      client: admin,
      ...watched,
      freshNode: new Map([['ssd', 8n * 1024n ** 3n]]),
      clock: systemClock,
    }),
    startupTaints({ taint: startupTaint, client: admin, ...watched, log: silentLog }),
  ],
  {
    ...parts,
    random: Math.random,
  },
);
const term = new AbortController();
const leading = workers.lead(term.signal);
test.after(async () => {
  term.abort();
  await leading;
  for (const informer of Object.values(watched)) await informer.stop();
});

test('each node with free space has one object per StorageClass, and those of an earlier installation are deleted', async () => {
  await waitFor({ ...template, 'a fast': '1Gi', 'b fast': '1Gi' });
  const [object] = (await admin.list(csiStorageCapacities, { namespace })).items;
  assert.equal(object?.metadata.labels?.['csi.storage.k8s.io/managed-by'], 'moorage-controller');
  assert.equal(object?.metadata.ownerReferences?.[0]?.kind, 'CSIDriver', 'it would stay when the driver goes');
});

test('a change of free space is published, down to zero on a full node', async () => {
  await annotate('a', { ssd: '536870912' });
  await annotate('b', { ssd: '0' });
  await waitFor({ ...template, 'a fast': '512Mi', 'b fast': '0' });
});

test('a new StorageClass is published at once, on the nodes that have its device class', async () => {
  await annotate('b', { ssd: '0', hdd: '2147483648' });
  await storageClass('slow', { 'topolvm.io/device-class': 'hdd' });
  await storageClass('immediate', { 'topolvm.io/device-class': 'hdd' }, 'Immediate');
  await waitFor({ ...template, 'a fast': '512Mi', 'b fast': '0', 'b slow': '2Gi' });
  await admin.delete(storageClasses, 'slow');
  await waitFor({ ...template, 'a fast': '512Mi', 'b fast': '0' });
});

test('objects that somebody else deletes or changes are restored', async () => {
  const { items } = await admin.list(csiStorageCapacities, { namespace });
  const object = items.find(({ nodeTopology }) => nodeTopology?.matchLabels?.[topologyKey] === 'a');
  const name = object?.metadata.name ?? '';
  await admin.delete(csiStorageCapacities, name, { namespace });
  await waitFor({ ...template, 'a fast': '512Mi', 'b fast': '0' });
  await admin.patch(csiStorageCapacities, name, { type: 'merge', body: { capacity: '7Gi' } }, { namespace });
  await waitFor({ ...template, 'a fast': '512Mi', 'b fast': '0' });
});

test('a node whose driver is not registered, or that was removed, has no capacity', async () => {
  await admin.delete(csiNodes, 'a');
  await waitFor({ ...template, 'b fast': '0' });
  await admin.delete(nodes, 'b');
  await waitFor(template);
});

test('a new node loses its startup taint, and no other, once the scheduler knows its free space', async () => {
  const taintsOf = async () => (await admin.get(nodes, 'new'))?.spec?.taints?.map(({ key }) => key) ?? [];
  const taints = [startupTaint, 'example.com/other'].map((key) => ({ key, effect: 'NoSchedule' }));
  await node('new', {}, taints);
  await node('c', { ssd: '1073741824' });
  await waitFor({ ...template, 'c fast': '1Gi' }); // the controller has seen both nodes
  assert.ok((await taintsOf()).includes(startupTaint));
  await annotate('new', { ssd: '1073741824' });
  await eventually('the taint is removed', async () => !(await taintsOf()).includes(startupTaint));
  assert.ok((await taintsOf()).includes('example.com/other'));
  await waitFor({ ...template, 'c fast': '1Gi', 'new fast': '1Gi' });
});

test('nothing is published if the CSIDriver does not track capacity', async () => {
  await admin.patch(csiDrivers, driverName, { type: 'merge', body: { spec: { storageCapacity: false } } });
  await waitFor({});
});

async function waitFor(expected: Readonly<Record<string, string>>): Promise<void> {
  await eventually('the objects are as expected', async () => {
    const { items } = await admin.list(csiStorageCapacities, { namespace });
    const found = items.map(({ nodeTopology, storageClassName, capacity }) => [
      `${nodeTopology?.matchLabels?.[topologyKey] ?? Object.keys(nodeTopology?.matchLabels ?? {}).join()} ${storageClassName}`,
      capacity,
    ]);
    assert.equal(found.length, Object.keys(expected).length);
    assert.deepEqual(Object.fromEntries(found), expected);
    return true;
  });
}

async function node(
  name: string,
  free: Readonly<Record<string, string>>,
  taints: readonly { readonly key: string; readonly effect: string }[] = [],
): Promise<void> {
  await admin.create(nodes, { metadata: { name, annotations: roomOf(free) }, spec: { taints: [...taints] } });
  const drivers = [{ name: driverName, nodeID: name, topologyKeys: [topologyKey] }];
  await admin.create(csiNodes, { metadata: { name }, spec: { drivers } });
}

async function annotate(name: string, free: Readonly<Record<string, string>>): Promise<void> {
  await admin.patch(nodes, name, { type: 'merge', body: { metadata: { annotations: roomOf(free) } } });
}

function roomOf(free: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(free).map(([name, bytes]) => [`capacity.topolvm.io/${name}`, bytes]));
}

async function storageClass(
  name: string,
  parameters: Record<string, string>,
  volumeBindingMode = 'WaitForFirstConsumer',
): Promise<void> {
  await admin.create(storageClasses, { metadata: { name }, provisioner: driverName, parameters, volumeBindingMode });
}

/** As the csi-provisioner of an earlier installation wrote it. */
function ofProvisioner(name: string, nodeName: string, storageClassName: string): CsiStorageCapacity {
  return {
    metadata: { name, namespace, labels: { ...labels, 'csi.storage.k8s.io/managed-by': 'external-provisioner' } },
    nodeTopology: { matchLabels: { [topologyKey]: nodeName } },
    storageClassName,
    capacity: '9Gi',
  };
}
