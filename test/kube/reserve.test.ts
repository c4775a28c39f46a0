import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { driverName, reserve } from '../../src/api/names.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import {
  csiDrivers,
  leases,
  nodes,
  type Pod,
  persistentVolumeClaims,
  pods,
  type Stored,
  storageClasses,
} from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer, startController } from './api-server.ts';
import { createSet, Machines } from './machines.ts';
import { eventsOf } from './removed-nodes.ts';

// Real API server, kube-scheduler and controller, with the controller's own rights and policies. Nodes have room for one pod.
const api = await startApiServer();
const { admin, cluster } = api;
const files = ['namespace', 'crd', 'rbac', 'controller-policy'];
await cluster.kubectl(
  'apply',
  ...files.map((name) => `-f${join(import.meta.dirname, '..', '..', 'deploy', `${name}.yaml`)}`),
);
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});
await admin.create(csiDrivers, { metadata: { name: driverName }, spec: {} }); // owns placeholders
const controller = await startController(cluster, '--leader-election=false'); // it is killed, and need not wait for its Lease
const machines = new Machines(admin);
after(() => machines.stop());
const explain = async () =>
  `${await cluster.kubectl('get', 'pods,pvc,nodes', '-A', '-o', 'wide')}\n${await controller.tail()}`;

const plugin = kubectlMoorage({ columns: undefined, colours: false });
const ending = 'example.com/takes-its-time';
const containers = [{ name: 'main', image: 'pause', resources: { requests: { cpu: '3', memory: '1Gi' } } }];

/** A node, a pod of a StatefulSet there, and a pod of the same priority that wants its place. */
async function rivals(name: string, annotations: Record<string, string>, spec: Partial<Pod['spec']> = {}) {
  const namespace = await newNamespace(api, name);
  await machines.add(name, { 'capacity.topolvm.io/00default': String(100 * 1024 ** 3) });
  const pod = { ...spec, ...podOn(name) };
  await createSet(admin, namespace, name, 'local', { annotations, pod });
  await bound(namespace, `${namespace}-0`);
  await eventually('the claim is bound', async () => (await claimOf(namespace))?.status?.phase === 'Bound');
  await rival(namespace, 'rival', spec);
  return namespace;
}

const podOn = (node: string) => ({ nodeSelector: { 'kubernetes.io/hostname': node }, containers });

/** Another pod that wants the same room, and does not get it. */
async function rival(namespace: string, name: string, spec: Partial<Pod['spec']> = {}): Promise<void> {
  const own = { ...spec, ...podOn(namespace), automountServiceAccountToken: false };
  await admin.create(pods, { metadata: { name, namespace }, spec: own });
  await refused(namespace, name);
}

const podOf = (namespace: string, name: string) => admin.get(pods, name, { namespace });
const claimOf = (namespace: string) => admin.get(persistentVolumeClaims, `data-${namespace}-0`, { namespace });
const annotate = (namespace: string, annotations: Record<string, string | null>) =>
  admin.patch(
    persistentVolumeClaims,
    `data-${namespace}-0`,
    { type: 'merge', body: { metadata: { annotations } } },
    { namespace },
  );
const reportsOf = (namespace: string) => eventsOf(admin, 'PersistentVolumeClaim', `data-${namespace}-0`);
const cordon = (name: string, unschedulable: boolean) =>
  admin.patch(nodes, name, { type: 'merge', body: { spec: { unschedulable } } });

async function bound(namespace: string, name: string): Promise<Stored<Pod>> {
  return eventually(
    `${namespace}/${name} has a node`,
    async () => {
      const found = await podOf(namespace, name);
      return found?.spec?.nodeName && !found.metadata.deletionTimestamp ? found : undefined;
    },
    { explain },
  );
}

async function refused(namespace: string, name: string): Promise<Stored<Pod>> {
  return eventually(
    `the scheduler has refused ${namespace}/${name}`,
    async () => {
      const found = await podOf(namespace, name);
      const isRefused = found?.status?.conditions?.some(({ reason }) => reason === 'Unschedulable');
      return isRefused && !found?.spec?.nodeName ? found : undefined;
    },
    { explain },
  );
}

async function placeholderOf(namespace: string): Promise<Stored<Pod> | undefined> {
  const name = `reserve-${(await claimOf(namespace))?.metadata.uid}`;
  return admin.get(pods, name, { namespace: 'moorage-system' });
}

async function placed(namespace: string): Promise<Stored<Pod>> {
  return eventually(
    'the scheduler counts the placeholder',
    async () => {
      const found = await placeholderOf(namespace);
      return found?.status?.nominatedNodeName === namespace ? found : undefined;
    },
    { explain },
  );
}

async function noPlaceholder(namespace: string): Promise<void> {
  await eventually('there is no placeholder', async () => !(await placeholderOf(namespace)), { explain });
}

/** Its containers take their time, until `end`. */
async function beginToEnd(namespace: string): Promise<{ end(): Promise<void> }> {
  const setFinalizers = (finalizers: string[] | null) =>
    admin.patch(pods, `${namespace}-0`, { type: 'merge', body: { metadata: { finalizers } } }, { namespace });
  await setFinalizers([ending]);
  await admin.delete(pods, `${namespace}-0`, { namespace });
  return { end: async () => void (await setFinalizers(null)) };
}

/** While no controller creates the next pod. */
async function beforeTheNext(act: () => Promise<void>): Promise<void> {
  const { controllerManager } = cluster.controlPlane;
  await controllerManager.pause();
  await act();
  await controllerManager.resume();
}

test('without the annotation, a pod that waits takes the room', async () => {
  const namespace = await rivals('unreserved', {});
  const pod = await beginToEnd(namespace);
  await beforeTheNext(async () => {
    await pod.end();
    await bound(namespace, 'rival');
  });
  await refused(namespace, `${namespace}-0`);
});

test('with the annotation, the pod returns to its node', async () => {
  const namespace = await rivals('reserved', { [reserve.annotation]: 'true' });
  const { uid } = await bound(namespace, `${namespace}-0`).then(({ metadata }) => metadata);
  const pod = await beginToEnd(namespace);
  const placeholder = await placed(namespace);
  assert.deepEqual(placeholder.spec?.containers[0]?.resources?.requests, { cpu: '3', memory: `${1024 ** 3}` });
  assert.equal(placeholder.metadata.ownerReferences?.[0]?.kind, 'CSIDriver');
  await beforeTheNext(async () => {
    await pod.end();
    await eventually('the room is free', async () => !(await podOf(namespace, `${namespace}-0`)));
    await rival(namespace, 'another-rival');
  });

  await eventually(
    'the next pod has a node',
    async () => (await bound(namespace, `${namespace}-0`)).metadata.uid !== uid,
  );
  await noPlaceholder(namespace);
  await refused(namespace, 'rival');
  assert.deepEqual(await reportsOf(namespace), [
    'RoomReserved: the CPU and memory of its pod are kept on node reserved until it returns',
  ]);
});

test('while the node is cordoned, its room is kept, also if controller and scheduler are restarted', async () => {
  const namespace = await rivals('cordoned', { [reserve.annotation]: 'true' });
  await cordon(namespace, true);
  const pod = await beginToEnd(namespace);
  await placed(namespace);
  await pod.end();
  await refused(namespace, `${namespace}-0`);
  const printed: string[] = [];
  const words = ['why', `pod/${namespace}-0`, '-n', namespace];
  await assert.rejects(runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig }, printed })); // it waits
  assert.match(printed.join(), /on node cordoned, which is cordoned; its CPU and memory are kept there/);
  await controller.kill();

  // This scheduler elects no leader: the test writes its Lease, which others write once they have read all pods.
  await cluster.controlPlane.scheduler.kill();
  cluster.controlPlane.scheduler.start();
  await rival(namespace, 'another-rival');
  const spec = { holderIdentity: 'second', leaseDurationSeconds: 15 };
  await admin.create(leases, { metadata: { name: 'kube-scheduler', namespace: 'kube-system' }, spec });
  controller.start();
  await eventually(
    'the scheduler was told',
    async () => (await placeholderOf(namespace))?.metadata.annotations?.[reserve.toldAnnotation] === 'second',
    { explain },
  );
  await cordon(namespace, false);

  await bound(namespace, `${namespace}-0`);
  await noPlaceholder(namespace);
  await refused(namespace, 'rival');
});

test('a placeholder goes with its annotation, and an invalid one is reported', async () => {
  const namespace = await rivals('annotated-later', {});
  await cordon(namespace, true);
  const pod = await beginToEnd(namespace);
  await pod.end();
  await refused(namespace, `${namespace}-0`);
  await annotate(namespace, { [reserve.annotation]: 'yes' });
  await eventually('the word is refused', async () =>
    (await reportsOf(namespace)).includes('InvalidPolicy: moorage.dev/reserve is "yes"; use one of true, false'),
  );

  await annotate(namespace, { [reserve.annotation]: 'true' });
  await placed(namespace);
  await annotate(namespace, { [reserve.annotation]: null });
  await noPlaceholder(namespace);
});

test('room that cannot be kept is reported', async () => {
  await cluster.kubectl('create', 'priorityclass', 'fleeting', '--value=7');
  const namespace = await rivals('priority', { [reserve.annotation]: 'true' }, { priorityClassName: 'fleeting' });
  await cluster.kubectl('delete', 'priorityclass', 'fleeting');
  const pod = await beginToEnd(namespace);
  await eventually(
    'it is said why',
    async () => {
      const [report = ''] = await reportsOf(namespace);
      return /^RoomNotReserved: .* on node priority: .*no PriorityClass with name fleeting was found/.test(report);
    },
    { explain },
  );
  await pod.end();
});
