import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { driverName, selectedNodeAnnotation, templateNodeLabel, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { templateNode, toCapacityObject } from '../../src/controller/capacity/plan.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  csiDrivers,
  csiStorageCapacities,
  events,
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type StatefulSet,
  type Stored,
  statefulSets,
  storageClasses,
} from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { claimSpec, createSet, Machines, podSpec } from './machines.ts';

// The sentences of docs/how-kubernetes-places-volumes.md, on the real API server, controller manager and scheduler. Each test has
// nodes of its own, which are labelled with the name of its namespace.
const home = join(import.meta.dirname, '..', '..');
const api = await startApiServer();
const { admin, cluster } = api;
await cluster.kubectl(
  'apply',
  ...['crd', 'storageclass-policy'].map((name) => `-f${join(home, 'deploy', `${name}.yaml`)}`),
);
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});
const machines = new Machines(admin);
after(() => machines.stop());

describe('how Kubernetes places volumes', { concurrency: true }, () => {
  test('a StatefulSet keeps its volume when its pod is replaced', async () => {
    const { namespace } = await shop('replaced', ['replaced-a', 'replaced-b']);
    await set(namespace, 'db');
    const before = await placedPod(namespace, 'db-0');
    const claim = await boundClaim(namespace, 'data-db-0');

    await admin.delete(pods, 'db-0', { namespace });
    const now = await eventually('there is another pod', async () => {
      const pod = await placedPod(namespace, 'db-0');
      return pod.metadata.uid === before.metadata.uid ? undefined : pod;
    });

    assert.equal(now.spec?.nodeName, before.spec?.nodeName);
    assert.deepEqual(identity(await boundClaim(namespace, 'data-db-0')), identity(claim));
  });

  test('a StatefulSet that is scaled down and up again finds its claims and volumes', async () => {
    const { namespace } = await shop('rescaled', ['rescaled-a', 'rescaled-b']);
    await set(namespace, 'db', { replicas: 2 });
    const { spec } = await placedPod(namespace, 'db-1');
    const claim = await boundClaim(namespace, 'data-db-1');

    await scale(namespace, 'db', 1);
    await eventually('the pod is gone', async () => !(await admin.get(pods, 'db-1', { namespace })));
    assert.deepEqual(identity(await boundClaim(namespace, 'data-db-1')), identity(claim), 'the claim stays');

    await scale(namespace, 'db', 2);
    assert.equal((await placedPod(namespace, 'db-1')).spec?.nodeName, spec?.nodeName);
    assert.deepEqual(identity(await boundClaim(namespace, 'data-db-1')), identity(claim));
  });

  test('with whenScaled: Delete, scaling down deletes the claim, and scaling up creates another volume', async () => {
    const { namespace } = await shop('rescaled-delete', ['rescaled-delete-a']);
    const persistentVolumeClaimRetentionPolicy = { whenScaled: 'Delete', whenDeleted: 'Retain' };
    await set(namespace, 'db', { replicas: 2, persistentVolumeClaimRetentionPolicy });
    await placedPod(namespace, 'db-1');
    const claim = await boundClaim(namespace, 'data-db-1');

    await scale(namespace, 'db', 1);
    const get = () => admin.get(persistentVolumeClaims, 'data-db-1', { namespace });
    await eventually('the claim is gone', async () => !(await get()));

    await scale(namespace, 'db', 2);
    await placedPod(namespace, 'db-1');
    const now = await boundClaim(namespace, 'data-db-1');
    assert.notEqual(now.metadata.uid, claim.metadata.uid);
    assert.notEqual(now.spec?.volumeName, claim.spec?.volumeName);
    assert.ok(await get(), 'the claim of the other pod');
  });

  test('claims stay when their StatefulSet is deleted, unless whenDeleted is Delete', async () => {
    const { namespace } = await shop('deleted', ['deleted-a']);
    await set(namespace, 'kept');
    const persistentVolumeClaimRetentionPolicy = { whenScaled: 'Retain', whenDeleted: 'Delete' };
    await set(namespace, 'gone', { persistentVolumeClaimRetentionPolicy });
    for (const name of ['kept', 'gone']) await placedPod(namespace, `${name}-0`);

    for (const name of ['kept', 'gone']) await admin.delete(statefulSets, name, { namespace });
    await eventually(
      'only one claim is left',
      async () => !(await admin.get(persistentVolumeClaims, 'data-gone-0', { namespace })),
    );
    await eventually('no pod is left', async () => (await admin.list(pods, { namespace })).items.length === 0);
    assert.ok(await boundClaim(namespace, 'data-kept-0'));
  });

  test('with all nodes cordoned, the claim waits for its pod, the pod for a node, and no node is selected', async () => {
    const { namespace } = await shop('cordoned', []);
    await admin.create(persistentVolumeClaims, {
      metadata: { name: 'data-db-0', namespace },
      spec: claimSpec('local'),
    });
    await eventReason(namespace, 'data-db-0', 'WaitForFirstConsumer', /waiting for first consumer to be created/);

    await node('cordoned-a', namespace, { unschedulable: true });
    await set(namespace, 'db');
    await eventReason(namespace, 'data-db-0', 'WaitForPodScheduled', /waiting for pod db-0 to be scheduled/);
    const message = await unschedulable(namespace, 'db-0', /were unschedulable/);
    assert.match(message, /^0\/\d+ nodes are available: .*1 node\(s\) were unschedulable/);
    const claim = await admin.get(persistentVolumeClaims, 'data-db-0', { namespace });
    assert.equal(claim?.metadata.annotations?.[selectedNodeAnnotation], undefined);
    assert.equal(claim?.spec?.volumeName, undefined);
  });

  test('when a node is added, the scheduler selects it in the claim, and only then is the volume created, on that node', async (t) => {
    const { namespace } = await shop('added', []);
    const seen: string[] = [];
    const claims = new Informer({
      client: admin,
      resource: persistentVolumeClaims,
      namespace,
      clock: systemClock,
      log: silentLog,
    });
    claims.onChange(({ object: { metadata, spec } }) => {
      const state = `${metadata.annotations?.[selectedNodeAnnotation] ?? 'no node'}, ${spec?.volumeName ? 'a volume' : 'no volume'}`;
      if (seen.at(-1) !== state) seen.push(state);
    });
    claims.start();
    t.after(() => claims.stop());
    await set(namespace, 'db');
    await unschedulable(namespace, 'db-0', /didn't match Pod's node affinity/);

    await node('added-a', namespace);
    assert.equal((await placedPod(namespace, 'db-0')).spec?.nodeName, 'added-a');
    const { spec } = await boundClaim(namespace, 'data-db-0');
    const volume = await admin.get(persistentVolumes, spec?.volumeName ?? '');
    assert.deepEqual(volume?.spec?.nodeAffinity?.required, onNode('added-a').nodeAffinity.required);
    await eventually('the watch has seen it', async () => seen.length > 2);
    assert.deepEqual(seen, ['no node, no volume', 'added-a, no volume', 'added-a, a volume']);
  });

  test('with Immediate binding, a claim takes the smallest volume that fits, wherever its pod can run', async () => {
    const { namespace } = await shop('immediate', ['immediate-a', 'immediate-b']);
    await classOf(namespace, 'Immediate');
    await volume(namespace, 'immediate-too-small', 'immediate-a', '1Gi');
    await volume(namespace, 'immediate-largest', 'immediate-b', '5Gi');
    await volume(namespace, 'immediate-smallest', 'immediate-a', '3Gi');
    await volume(namespace, 'immediate-middle', 'immediate-b', '4Gi');
    await claimOf(namespace, '2Gi');
    assert.equal((await boundClaim(namespace, 'data')).spec?.volumeName, 'immediate-smallest');

    await pod(namespace, { [topologyKey]: 'immediate-b' });
    await unschedulable(namespace, 'pod', /didn't match PersistentVolume's node affinity/);
  });

  test('with WaitForFirstConsumer, it takes the smallest that fits on the node of its pod', async () => {
    const { namespace } = await shop('waiting', ['waiting-a', 'waiting-b']);
    await classOf(namespace, 'WaitForFirstConsumer');
    await volume(namespace, 'waiting-smallest', 'waiting-a', '3Gi');
    await volume(namespace, 'waiting-largest', 'waiting-b', '5Gi');
    await volume(namespace, 'waiting-middle', 'waiting-b', '4Gi');
    await claimOf(namespace, '2Gi');
    await pod(namespace, { [topologyKey]: 'waiting-b' });

    assert.equal((await boundClaim(namespace, 'data')).spec?.volumeName, 'waiting-middle');
    assert.equal((await placedPod(namespace, 'pod')).spec?.nodeName, 'waiting-b');
  });

  test('a volume that names the claim is taken even if a smaller one fits', async () => {
    for (const mode of ['Immediate', 'WaitForFirstConsumer'] as const) {
      const name = `named-${mode.toLowerCase()}`;
      const { namespace } = await shop(name, [`${name}-a`]);
      await classOf(namespace, mode);
      await volume(namespace, `${name}-smallest`, `${name}-a`, '3Gi');
      await volume(namespace, `${name}-reserved`, `${name}-a`, '5Gi', { claimRef: { namespace, name: 'data' } });
      await claimOf(namespace, '2Gi');
      await pod(namespace, {});
      assert.equal((await boundClaim(namespace, 'data')).spec?.volumeName, `${name}-reserved`);
    }
  });

  test('a volume that is available is taken before a new one is created', async () => {
    const { namespace } = await shop('available', ['available-a']);
    const csi = { driver: driverName, volumeHandle: 'available' };
    await volume(namespace, 'available', 'available-a', '3Gi', { storageClassName: 'local', csi, local: undefined });
    await set(namespace, 'db');
    assert.equal((await placedPod(namespace, 'db-0')).spec?.nodeName, 'available-a');
    assert.equal((await boundClaim(namespace, 'data-db-0')).spec?.volumeName, 'available');
  });

  test('a capacity for template nodes makes a pod schedulable on a template node only', async () => {
    const { namespace } = await shop('autoscaled', ['autoscaled-real']);
    const driver = await admin.create(csiDrivers, {
      metadata: { name: 'autoscaled.example.com' },
      spec: { storageCapacity: true },
    });
    const storageClass = { metadata: { name: namespace }, provisioner: driver.metadata.name };
    await admin.create(storageClasses, { ...storageClass, volumeBindingMode: 'WaitForFirstConsumer' });
    const wanted = { nodeName: templateNode, storageClass: namespace, freeBytes: 8n * 1024n ** 3n, ownerUid: 'none' };
    const { metadata, ...capacity } = toCapacityObject(wanted, namespace);
    await admin.create(csiStorageCapacities, { ...capacity, metadata: { ...metadata, ownerReferences: [] } });
    await claimOf(namespace, '2Gi');
    await pod(namespace, {});
    await unschedulable(namespace, 'pod', /did not have enough free storage/);

    await node('autoscaled-template', namespace, {}, { [templateNodeLabel]: 'true' });
    const selected = await eventually('a node is selected', async () => {
      const claim = await admin.get(persistentVolumeClaims, 'data', { namespace });
      return claim?.metadata.annotations?.[selectedNodeAnnotation];
    });
    assert.equal(selected, 'autoscaled-template');
  });

  test('a StorageClass with a zone is refused when it is created, and the answer says what to write instead', async () => {
    const create = (parameters: Record<string, string>, rest: object = {}) =>
      admin.create(storageClasses, {
        metadata: { generateName: 'zone-' },
        provisioner: driverName,
        parameters,
        ...rest,
      });
    await eventually('the policy is in effect', () =>
      create({ zone: 'us-west-2b' }).then(
        () => false,
        () => true,
      ),
    );
    await assert.rejects(
      create({ type: 'io1', fsType: 'ext4', zone: 'us-west-2b' }, { volumeBindingMode: 'WaitForFirstConsumer' }),
      /parameters\.zone: a local volume has a node, not a zone; .*nodeSelector topology\.kubernetes\.io\/zone: us-west-2b/,
    );
    await assert.rejects(
      create({ zones: 'west,east' }),
      /, with node affinity topology\.kubernetes\.io\/zone In \[west, east\], /,
    );
    const topology = (key: string) => [{ matchLabelExpressions: [{ key, values: ['us-west-2b'] }] }];
    await assert.rejects(
      create({}, { allowedTopologies: topology('topology.kubernetes.io/zone') }),
      /allowedTopologies has the key topology\.kubernetes\.io\/zone, with which no volume could ever be created; .*topology\.topolvm\.io\/node/,
    );
    await assert.rejects(create({ 'csi.storage.k8s.io/fstype': 'zfs' }), /fstype is zfs; use ext4, xfs or btrfs/);
    await assert.rejects(
      create({ fsType: 'xfs', 'csi.storage.k8s.io/fstype': 'xfs' }),
      /are the same parameter; keep csi/,
    );

    await create({ 'csi.storage.k8s.io/fstype': 'btrfs' }, { allowedTopologies: topology(topologyKey) });
    await create({ fsType: '' });
    await create({ zone: 'a' }, { provisioner: 'ebs.csi.aws.com' });
  });
});

test('the headings of the page are the names of these tests', async () => {
  const page = await readFile(join(home, 'docs', 'how-kubernetes-places-volumes.md'), 'utf8');
  const headings = [...page.matchAll(/^### (.*)$/gm)].map(([, heading = '']) => heading.toLowerCase());
  const source = await readFile(import.meta.filename, 'utf8');
  const names = [...source.matchAll(/^ {2}test\('(.*?)', /gm)].map(([, name = '']) => name.toLowerCase());
  assert.deepEqual(headings, names);
});

/** A namespace, and nodes for its pods. */
async function shop(name: string, nodeNames: readonly string[]): Promise<{ readonly namespace: string }> {
  const namespace = await newNamespace(api, name);
  await Promise.all(nodeNames.map((each) => node(each, namespace)));
  return { namespace };
}

/** For pods of the namespace, from the moment it is labelled. */
async function node(
  name: string,
  namespace: string,
  spec: { readonly unschedulable?: boolean } = {},
  labels: Record<string, string> = {},
): Promise<void> {
  await machines.add(name);
  await eventually('the node is ready', async () => {
    const taints = (await admin.get(nodes, name))?.spec?.taints ?? [];
    return !taints.some(({ key }) => key === 'node.kubernetes.io/not-ready');
  });
  await admin.patch(nodes, name, {
    type: 'merge',
    body: { metadata: { labels: { shop: namespace, ...labels } }, spec },
  });
}

/** Its pods do not wait for each other, because no kubelet makes them ready. */
async function set(namespace: string, name: string, spec: Partial<StatefulSet['spec']> = {}): Promise<void> {
  await createSet(admin, namespace, name, 'local', {
    pod: { nodeSelector: { shop: namespace } },
    set: { podManagementPolicy: 'Parallel', ...spec },
  });
}

async function scale(namespace: string, name: string, replicas: number): Promise<void> {
  await admin.patch(statefulSets, name, { type: 'merge', body: { spec: { replicas } } }, { namespace });
}

async function placedPod(namespace: string, name: string): Promise<Stored<Pod>> {
  return eventually(`${namespace}/${name} has a node`, async () => {
    const found = await admin.get(pods, name, { namespace });
    return found?.spec?.nodeName && !found.metadata.deletionTimestamp ? found : undefined;
  });
}

async function boundClaim(namespace: string, name: string): Promise<Stored<PersistentVolumeClaim>> {
  return eventually(`claim ${namespace}/${name} is bound`, async () => {
    const claim = await admin.get(persistentVolumeClaims, name, { namespace });
    return claim?.status?.phase === 'Bound' ? claim : undefined;
  });
}

function identity({ metadata, spec }: Stored<PersistentVolumeClaim>) {
  return { uid: metadata.uid, volume: spec?.volumeName };
}

/** Resolves with the scheduler's message. */
async function unschedulable(namespace: string, name: string, reason: RegExp): Promise<string> {
  return eventually(`${namespace}/${name} cannot be scheduled`, async () => {
    const { conditions = [] } = (await admin.get(pods, name, { namespace }))?.status ?? {};
    const message = conditions.find(({ type, status }) => type === 'PodScheduled' && status === 'False')?.message;
    return message && reason.test(message) ? message : undefined;
  });
}

/** The claim is touched until then, because Kubernetes looks at a claim when it changes, or else every 15 s. */
async function eventReason(namespace: string, claim: string, reason: string, note: RegExp): Promise<void> {
  let touches = 0;
  await eventually(`there is an Event ${reason}`, async () => {
    const body = { metadata: { annotations: { touches: String(touches++) } } };
    await admin.patch(persistentVolumeClaims, claim, { type: 'merge', body }, { namespace });
    const { items } = await admin.list(events, { namespace });
    return items.some(({ regarding, ...event }) => {
      return regarding?.name === claim && event.reason === reason && note.test(event.note ?? '');
    });
  });
}

/** A class without a provisioner, for volumes that exist already. */
async function classOf(namespace: string, volumeBindingMode: string): Promise<void> {
  const provisioner = 'kubernetes.io/no-provisioner';
  await admin.create(storageClasses, { metadata: { name: namespace }, provisioner, volumeBindingMode });
}

function onNode(name: string) {
  const terms = [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: [name] }] }];
  return { nodeAffinity: { required: { nodeSelectorTerms: terms } } };
}

async function volume(
  namespace: string,
  name: string,
  nodeName: string,
  storage: string,
  spec: object = {},
): Promise<void> {
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage },
      storageClassName: namespace,
      local: { path: `/mnt/${name}` },
      ...onNode(nodeName),
      ...spec,
    },
  });
  // A new volume can be bound once the controller manager has seen it.
  await eventually('the volume is available', async () => {
    const phase = (await admin.get(persistentVolumes, name))?.status?.phase;
    return phase === 'Available';
  });
}

async function claimOf(namespace: string, storage: string): Promise<void> {
  const spec = { ...claimSpec(namespace), resources: { requests: { storage } } };
  await admin.create(persistentVolumeClaims, { metadata: { name: 'data', namespace }, spec });
}

async function pod(namespace: string, nodeSelector: Record<string, string>): Promise<void> {
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
  // A namespace accepts pods once it has its default ServiceAccount.
  await eventually('the pod is created', () =>
    admin.create(pods, {
      metadata: { name: 'pod', namespace },
      spec: { ...podSpec, volumes, nodeSelector: { shop: namespace, ...nodeSelector } },
    }),
  );
}
