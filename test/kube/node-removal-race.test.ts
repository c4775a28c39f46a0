import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName } from '../../src/api/names.ts';
import { nodes, persistentVolumeClaims, pods, storageClasses } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { claimSpec, createSet, Machines, mortal, podSpec } from './machines.ts';
import { eventsOf, leadRemovals } from './removed-nodes.ts';

/** How often the race is run; the command for more is in the README. */
const races = Number(process.env['RACES'] ?? 5);

const api = await startApiServer();
const { admin, cluster } = api;
await cluster.kubectl('apply', `-f${join(import.meta.dirname, '..', '..', 'deploy', 'crd.yaml')}`);
for (const [name, provisioner] of [
  ['local', driverName],
  ['cloud', 'example.com/cloud'],
] as const) {
  await admin.create(storageClasses, { metadata: { name }, provisioner, volumeBindingMode: 'WaitForFirstConsumer' });
}

test('a pod of a StatefulSet that waits for a claim that is gone is replaced, and no other pod', async (t) => {
  const namespace = await newNamespace(api, 'stranded');
  const { controllerManager } = cluster.controlPlane;
  const account = { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount', namespaced: true };
  await eventually('pods can be created', () => admin.get(account, 'default', { namespace }));
  await controllerManager.pause(); // it would create what the test leaves out
  t.after(() => controllerManager.resume());
  const stranded = await podOf(namespace, 'db', { storageClass: 'local' });
  const others = [
    await podOf(namespace, 'cloudy', { storageClass: 'cloud' }),
    await podOf(namespace, 'bare', { storageClass: 'local', kind: 'none' }),
    await podOf(namespace, 'web', { storageClass: 'local', kind: 'ReplicaSet' }),
  ];
  const served = await podOf(namespace, 'served', { storageClass: 'local', withClaim: true });
  leadRemovals(t, admin);

  const isThere = async (name: string) => (await admin.get(pods, name, { namespace })) !== undefined;
  await eventually('the stranded pod is deleted', async () => !(await isThere(stranded)));
  assert.deepEqual(await eventsOf(admin, 'Pod', stranded), [
    'ClaimMissing: deleting this pod because its claim data-db-0 does not exist; its StatefulSet re-creates both',
  ]);
  assert.ok(await isThere(served));
  await admin.delete(persistentVolumeClaims, 'data-served-0', { namespace });
  const body = { metadata: { finalizers: null } }; // as the controller manager would: no pod on a node uses it
  await admin.patch(persistentVolumeClaims, 'data-served-0', { type: 'merge', body }, { namespace });
  await eventually('its claim is gone, so it is replaced too', async () => !(await isThere(served)));
  for (const name of others) assert.ok(await isThere(name), name);

  await controllerManager.resume();
  await eventually('both are there again', async () => {
    return (await isThere(stranded)) && (await admin.get(persistentVolumeClaims, 'data-db-0', { namespace }));
  });
});

interface PodOptions {
  readonly storageClass: string;
  readonly kind?: 'StatefulSet' | 'ReplicaSet' | 'none';
  readonly withClaim?: boolean;
}

/** A pod that cannot be scheduled, and its StatefulSet; returns the name of the pod. */
async function podOf(namespace: string, name: string, options: PodOptions): Promise<string> {
  const { storageClass, kind = 'StatefulSet', withClaim = false } = options;
  const { metadata } = await createSet(admin, namespace, name, storageClass);
  const owner = { apiVersion: 'apps/v1', kind, name, uid: metadata.uid, controller: true };
  if (withClaim) {
    await admin.create(persistentVolumeClaims, {
      metadata: { name: `data-${name}-0`, namespace },
      spec: claimSpec(storageClass),
    });
  }
  const pod = {
    metadata: { name: `${name}-0`, namespace, ownerReferences: kind === 'none' ? [] : [owner] },
    spec: {
      ...podSpec,
      nodeSelector: { nowhere: 'true' },
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `data-${name}-0` } }],
    },
  };
  return (await admin.create(pods, pod)).metadata.name;
}

test(`a StatefulSet gets its pod and a new volume elsewhere, ${races} times, wherever the controller is killed`, async (t) => {
  const namespace = await newNamespace(api, 'race');
  const machines = new Machines(admin);
  t.after(() => machines.stop());
  await machines.add('node-0');
  await createSet(admin, namespace, 'db', 'local');
  let before = await placed(namespace, 'node-0');
  for (let race = 0; race < races; race++) {
    const [leaving, staying] = [`node-${race}`, `node-${race + 1}`];
    await machines.add(staying);
    if (race % 2 === 0) await drain(namespace, leaving);
    const dying = mortal(admin, race % 12);
    const endDying = leadRemovals(t, dying.client);

    await admin.delete(nodes, leaving);
    const isRemoved = async () => !(await admin.get(nodes, leaving));
    await eventually('the controller dies, or is done', async () => dying.isDead() || (await isRemoved()));
    await endDying();
    const end = leadRemovals(t, admin);

    const now = await placed(namespace, staying);
    assert.notEqual(now.claim, before.claim, 'a new claim');
    assert.notEqual(now.volume, before.volume, 'a new volume');
    await eventually(`${leaving} is gone`, isRemoved);
    const { items } = await admin.list(logicalVolumes, { fieldSelector: `spec.nodeName=${leaving}` });
    assert.deepEqual(items, [], 'no LogicalVolume is left of it');
    before = now;
    await end();
    machines.forget(leaving);
  }
});

/** Waits until the pod is on the node with a volume there. */
async function placed(namespace: string, nodeName: string): Promise<{ claim: string; volume: string }> {
  return eventually(
    `the pod is on ${nodeName}`,
    async () => {
      const pod = await admin.get(pods, 'db-0', { namespace });
      const claim = await admin.get(persistentVolumeClaims, 'data-db-0', { namespace });
      const isPlaced = pod?.spec?.nodeName === nodeName && !pod.metadata.deletionTimestamp;
      return isPlaced && claim?.spec?.volumeName
        ? { claim: claim.metadata.uid, volume: claim.spec.volumeName }
        : undefined;
    },
    { timeoutMs: 120_000, explain: async () => cluster.kubectl('-n', namespace, 'get', 'pods,pvc,events') },
  );
}

/** After this the StatefulSet has re-created its pod, which waits for the node with its volume: steps 1 to 3 of the race. */
async function drain(namespace: string, nodeName: string): Promise<void> {
  const old = await admin.get(pods, 'db-0', { namespace });
  await admin.patch(nodes, nodeName, { type: 'merge', body: { spec: { unschedulable: true } } });
  await admin.delete(pods, 'db-0', { namespace });
  await eventually('its new pod waits', async () => {
    const pod = await admin.get(pods, 'db-0', { namespace });
    return (
      pod &&
      pod.metadata.uid !== old?.metadata.uid &&
      pod.status?.conditions?.some(({ reason }) => reason === 'Unschedulable')
    );
  });
}
