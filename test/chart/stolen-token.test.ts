import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { localPvAnnotations, localPvFinalizer, localPvOptions } from '../../src/api/local-pv.ts';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, logicalVolume, nodeFinalizer, topologyKey } from '../../src/api/names.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { NodeRemoval } from '../../src/controller/node-removal/node-removal.ts';
import { LogicalVolumeObjects } from '../../src/controller/volumes/logical-volume-objects.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeClient, Patch } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  configMaps,
  type KubeObject,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  type Resource,
  type Stored,
} from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { formatRight, rightsOf } from '../cluster/rights.ts';
import { newNamespace } from '../kube/api-server.ts';
import { find, render } from './chart.ts';
import { InstalledChart } from './installed-chart.ts';

const chart = await InstalledChart.start('localPv.enabled=true');
const { admin, cluster } = chart.api;
const theirFinalizer = 'example.com/theirs';
const forever = new AbortController().signal;

/** The node whose token is stolen, the thief's target, and a node that is deleted. */
const [own, other, doomed] = ['node-of-the-thief', 'node-of-the-victim', 'doomed'] as const;
for (const name of [own, other, doomed]) {
  const labels = { 'kubernetes.io/hostname': name };
  const metadata = { name, labels, finalizers: [nodeFinalizer, theirFinalizer] };
  await admin.create(nodes, { metadata, spec: { unschedulable: true } });
}
const shop = await newNamespace(chart.api, 'shop');
const victim = await volume('pvc-db', other);
await volume('pvc-loot', own);
await volume('pvc-of-the-doomed', doomed);
const finalizers = [logicalVolume.finalizer, theirFinalizer];
await admin.create(logicalVolumes, {
  metadata: { name: 'pvc-not-made', finalizers },
  spec: { name: 'pvc-not-made', nodeName: own, size: '1Gi' },
});
const empty = { total: 0, volumes: [] };
const report = { health: 'Healthy', pools: [], erasures: empty, orphans: empty, versions: {}, features: {} } as const;
for (const name of [own, other]) {
  const status = { nodeUID: name, updatedAt: '2026-01-01T00:00:00Z', ...report };
  await admin.create(nodeStorages, { metadata: { name, finalizers: [theirFinalizer] }, status });
}
await admin.create(volumeMoves, { metadata: { name: 'theirs', namespace: shop }, spec: { claimName: 'pvc-db' } });
const moving = {
  status: { phase: 'Copying', sourceNode: other, targetNode: doomed, source: { certificate: 'theirs' } },
};
const controller = await chart.clientOf('moorage-controller');
await controller.patch(
  volumeMoves,
  'theirs',
  { type: 'merge', body: moving },
  { namespace: shop, subresource: 'status' },
);
const thief = await chart.agentOf(own);
for (const name of [own, other]) await staticVolume(`static-on-${name}`, name);

/** A claim with its volume, as provisioner, scheduler and agent leave them; returns the volume ID. */
async function volume(name: string, nodeName: string): Promise<string> {
  const spec = { name, nodeName, size: '1Gi' };
  const created = await admin.create(logicalVolumes, {
    metadata: { name, finalizers: [logicalVolume.finalizer] },
    spec,
  });
  const volumeID = created.metadata.uid;
  const status = { volumeID, currentSize: '1Gi', code: 0 };
  await admin.patch(logicalVolumes, name, { type: 'merge', body: { status } }, { subresource: 'status' });
  const storage = '1Gi';
  const claim = await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace: shop },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'local',
      volumeName: name,
      resources: { requests: { storage } },
    },
  });
  const matchExpressions = [{ key: topologyKey, operator: 'In', values: [nodeName] }];
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage },
      storageClassName: 'local',
      persistentVolumeReclaimPolicy: 'Delete',
      csi: { driver: driverName, volumeHandle: volumeID },
      claimRef: { namespace: shop, name, uid: claim.metadata.uid },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
    },
  });
  return volumeID;
}

/** A static volume, as the controller has assigned it to its node. */
async function staticVolume(name: string, nodeName: string): Promise<void> {
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values: [nodeName] }];
  const annotations = { [localPvAnnotations.node]: nodeName, [localPvOptions.autoRelease]: 'true' };
  await admin.create(persistentVolumes, {
    metadata: { name, annotations, finalizers: [localPvFinalizer, theirFinalizer] },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: 'static',
      persistentVolumeReclaimPolicy: 'Retain',
      local: { path: `/mnt/pv/${name}` },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
    },
  });
}

const written: readonly Resource<KubeObject>[] = [nodes, logicalVolumes, nodeStorages, persistentVolumes, volumeMoves];
const targets = written.flatMap((resource) =>
  ([undefined, 'status'] as const).map((subresource) => ({ resource, subresource })),
);

/** Tries a change with every kind of write, on every object that an agent may write. */
async function attempt(by: KubeClient, change: object): Promise<void> {
  for (const { resource, subresource } of targets) {
    const { items } = await admin.list(resource);
    for (const { metadata } of items) {
      const tries: readonly Patch[] = [
        { type: 'merge', body: change },
        { type: 'apply', body: change, fieldManager: 'thief', force: true },
      ];
      for (const patch of tries)
        await refusedOrNot(
          by.patch(resource, metadata.name, patch, {
            namespace: metadata.namespace,
            ...(subresource && { subresource }),
          }),
        );
    }
  }
}

/** The write may succeed or not, since only the resulting state counts; but the API server must have decided on it. */
async function refusedOrNot(request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/** Whether also our own annotations must stay as they are. */
function isOthers(kind: string, name: string): boolean {
  return kind === 'LogicalVolume' || (kind === 'PersistentVolume' && name !== `static-on-${own}`);
}

/** Everything that somebody's data depends on, without what Kubernetes' controllers write and what a Node reports about itself. */
async function world(): Promise<Readonly<Record<string, unknown>>> {
  const all: Record<string, unknown> = {};
  const note = <T extends KubeObject>(
    kind: string,
    items: readonly Stored<T>[],
    fields: (object: Stored<T>) => unknown,
  ) => {
    for (const object of items) {
      const { managedFields: _, resourceVersion: __, generation: ___, annotations, ...metadata } = object.metadata;
      const theirs = Object.entries(annotations ?? {}).filter(
        ([key]) => !/^((pv|node\.alpha)\.kubernetes\.io|moorage\.dev)\//.test(key) || isOthers(kind, metadata.name),
      );
      all[`${kind} ${metadata.name}`] = { metadata, annotations: theirs, fields: fields(object) };
    }
  };
  note('LogicalVolume', (await admin.list(logicalVolumes)).items, ({ spec, status }) => ({
    spec,
    volumeID: status?.volumeID ?? '',
  }));
  note('Node', (await admin.list(nodes)).items, ({ spec, status }) => ({
    spec: { ...spec, taints: spec?.taints?.filter(({ key }) => !key.startsWith('node.kubernetes.io/')) ?? [] },
    allocatable: status?.allocatable,
    addresses: status?.addresses,
  }));
  // What a node reports about itself is its own affair.
  note(
    'NodeStorage',
    (await admin.list(nodeStorages)).items,
    ({ metadata, status }) => metadata.name !== own && status,
  );
  note('VolumeMove', (await admin.list(volumeMoves)).items, ({ spec, status }) => ({ spec, status }));
  note('Claim', (await admin.list(persistentVolumeClaims)).items, ({ spec }) => spec);
  note('PersistentVolume', (await admin.list(persistentVolumes)).items, ({ spec }) => spec);
  return all;
}

await eventually('all claims are bound', async () =>
  (await admin.list(persistentVolumeClaims)).items.every(({ status }) => status?.phase === 'Bound'),
);

const owner = (name: string, uid: string, fields: object = {}) => ({
  metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid, ...fields }] },
});
const annotated = (annotations: object) => ({ metadata: { annotations } });

/** A thief's goals, and the writes that would reach them. */
const goals: Readonly<Record<string, readonly object[]>> = {
  "read another tenant's data through a volume that poses as theirs": [
    { status: { volumeID: victim } },
    { status: { volumeID: victim, currentSize: '1Gi', code: 0 } },
    annotated({ 'moorage.dev/content-source': `volume/${victim}` }),
    annotated({ 'moorage.dev/claim': 'shop/pvc-db' }),
    { spec: { source: 'pvc-db', accessType: 'rw' } },
    { spec: { name: 'pvc-db' } },
  ],
  "get another tenant's volume created or kept on the thief's node": [
    { spec: { nodeName: own } },
    { metadata: { labels: { [topologyKey]: other } } },
    { metadata: { labels: { 'kubernetes.io/hostname': other, 'node-role.kubernetes.io/control-plane': '' } } },
  ],
  'get volumes or their Node deleted by the garbage collector': [
    owner('not-there', randomUUID()),
    owner(other, randomUUID(), { blockOwnerDeletion: true, controller: true }),
  ],
  'make the cluster forget a volume, so that it is created again or left on the disks': [
    { status: { volumeID: '' } },
    { status: { volumeID: null } },
    { status: null },
    { status: { volumeID: 'another' } },
    annotated({ 'topolvm.io/pendingdeletion': 'true' }),
    annotated({ 'moorage.dev/never-used': 'true' }),
    annotated({ 'moorage.dev/never-used': 'true', 'moorage.dev/unclaimed': '2026-01-01T00:00:00Z' }),
    annotated({ 'topolvm.io/resize-requested-at': 'now' }),
  ],
  'get objects deleted or kept by controllers that follow labels, annotations and finalizers': [
    { metadata: { labels: { 'app.kubernetes.io/instance': 'pruned' } } },
    annotated({ 'argocd.argoproj.io/tracking-id': 'pruned' }),
    annotated({ 'kubectl.kubernetes.io/last-applied-configuration': '{}' }),
    { metadata: { finalizers: [nodeFinalizer, logicalVolume.finalizer, 'example.com/kept'] } },
    { metadata: { finalizers: [nodeFinalizer, logicalVolume.finalizer] } },
  ],
  'attract pods, or drive them away': [
    { spec: { unschedulable: false } },
    { spec: { taints: [] } },
    { spec: { taints: [{ key: 'a', effect: 'NoExecute' }] } },
    { spec: { podCIDR: '10.0.0.0/8', providerID: 'stolen' } },
    { status: { allocatable: { memory: '1Ti' } } },
    { status: { addresses: [{ type: 'InternalIP', address: '10.0.0.1' }] } },
    annotated({ 'cluster-autoscaler.kubernetes.io/scale-down-disabled': 'true' }),
  ],
  "make another node's storage look different, or its report disappear": [
    { status: { nodeUID: 'another' } },
    { status: { pools: [{ deviceClass: 'ssd', health: 'Healthy', free: '1Ti' }] } },
  ],
  "get another node's static volume, or its data": [
    annotated({ [localPvAnnotations.node]: own }),
    annotated({ [localPvAnnotations.adopt]: 'true' }),
    annotated({ [localPvOptions.onRelease]: 'keep' }),
    annotated({ [localPvOptions.autoRelease]: 'false' }),
    { spec: { local: { path: '/mnt/pv/pvc-db' } } },
    { spec: { claimRef: { namespace: 'thieves', name: 'loot' } } },
    { spec: { claimRef: null } },
    { spec: { persistentVolumeReclaimPolicy: 'Delete' } },
  ],
  'get the data of a volume that moves between other nodes, or make its move go wrong': [
    { status: { target: { certificate: 'stolen' } } },
    { status: { source: { certificate: 'stolen', endpoint: '10.0.0.1:1' } } },
    { status: { target: { converged: true, verdict: { round: 1, bytes: 1, sha256: '' }, opened: true } } },
    { status: { source: { fenced: true, readOnly: true, released: true } } },
    { status: { phase: 'Cleaning' } },
    { spec: { targetNode: 'own' } },
  ],
  'get more space, or less for others': [
    { spec: { size: '2Gi' } },
    { spec: { deviceClass: 'other' } },
    { spec: { capacity: { storage: '2Gi' } } },
  ],
};

test('the attempts of this file cover every write that RBAC allows the token', async () => {
  const objects = await render('metrics.secure=true', 'localPv.enabled=true');
  const roles = ['moorage-node', 'moorage-node-static-volumes'];
  const rights = roles.flatMap((name) => rightsOf(find(objects, 'ClusterRole', name)));
  const writes = rights.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).map(formatRight);
  const questions = ['create tokenreviews.authentication.k8s.io', 'create subjectaccessreviews.authorization.k8s.io'];
  assert.deepEqual(writes, [
    'patch logicalvolumes.topolvm.io',
    'patch logicalvolumes/status.topolvm.io',
    'patch nodes',
    'create nodestorages.moorage.dev',
    'patch nodestorages.moorage.dev',
    'patch volumemoves/status.moorage.dev',
    ...questions, // these only ask a question, and change nothing
    'patch persistentvolumes',
  ]);
});

for (const [goal, changes] of Object.entries(goals)) {
  test(`a stolen token cannot be used to ${goal}`, async () => {
    const before = await world();
    for (const change of changes) {
      await attempt(thief, change);
      assert.deepEqual(await world(), before, JSON.stringify(change));
    }
  });
}

test('a stolen token cannot change any other field of the metadata', async () => {
  const before = await world();
  const fields = await metadataFields();
  assert.ok(fields.has('ownerReferences') && fields.has('labels'));
  for (const [name, value] of fields) {
    if (name === 'annotations' || name === 'finalizers') continue; // some of these belong to the agent
    await attempt(thief, { metadata: { [name]: value } });
    assert.deepEqual(await world(), before, name);
  }
});

test("after all attempts of a thief, another node's volume is still found", async (t) => {
  const watched = new Informer({ client: admin, resource: logicalVolumes, clock: systemClock, log: silentLog });
  watched.start();
  t.after(() => watched.stop());
  await watched.whenSynced(forever);
  const found = await new LogicalVolumeObjects({ client: admin, watched }).find(victim, forever);
  assert.deepEqual([found?.metadata.name, found?.spec.nodeName], ['pvc-db', other]);
});

test('after all attempts of a thief, the garbage collector deletes nothing', async () => {
  const before = Object.keys(await world());
  const name = 'canary';
  const { ownerReferences } = owner('not-there', randomUUID()).metadata;
  await admin.create(configMaps, { metadata: { name, namespace: shop, ownerReferences } });
  await eventually(
    'it deletes objects whose owner is gone',
    async () => (await admin.get(configMaps, name, { namespace: shop })) === undefined,
  );
  const after = await world();
  assert.deepEqual(Object.keys(after), before);
  const deleted = Object.values(after as Record<string, Stored<KubeObject>>).filter(
    ({ metadata }) => metadata.deletionTimestamp,
  );
  assert.deepEqual(deleted, []);
});

test("deleting the thief's Node deletes no claim of another node", async () => {
  const agent = await chart.agentOf(doomed);
  await attempt(agent, { status: { volumeID: victim } });
  await attempt(agent, { spec: { nodeName: other } });
  await admin.delete(nodes, doomed);
  const reporter = { controller: driverName, instance: 'test' };
  const client = await chart.clientOf('moorage-controller'); // others may not delete LogicalVolumes
  const collaborators = { client, reporter, clock: systemClock, log: silentLog, keepObjects: false };
  await new NodeRemoval(collaborators).reconcile(doomed, forever);
  const { items } = await admin.list(persistentVolumeClaims);
  const kept = items.filter(({ metadata }) => !metadata.deletionTimestamp).map(({ metadata }) => metadata.name);
  assert.deepEqual(kept.sort(), ['pvc-db', 'pvc-loot']);
});

/** The metadata fields in the API server's OpenAPI document, each with a value of the right type. */
async function metadataFields(): Promise<ReadonlyMap<string, unknown>> {
  interface Schema {
    readonly type?: string;
    readonly $ref?: string;
    readonly allOf?: readonly Schema[];
    readonly format?: string;
    readonly items?: Schema;
    readonly properties?: Readonly<Record<string, Schema>>;
  }
  const { components } = JSON.parse(await cluster.kubectl('get', '--raw', '/openapi/v3/api/v1')) as {
    components: { schemas: Record<string, Schema> };
  };
  const sample = (schema: Schema): unknown => {
    const { type, $ref, allOf, format, items, properties } = schema;
    if (allOf?.[0]) return sample(allOf[0]);
    if ($ref) return sample(components.schemas[$ref.split('/').at(-1) ?? ''] ?? assert.fail($ref));
    if (type === 'string') return format === 'date-time' ? '2026-01-01T00:00:00Z' : 'thief';
    if (type === 'integer') return 7;
    if (type === 'boolean') return true;
    if (type === 'array') return [sample(items ?? {})];
    if (properties)
      return Object.fromEntries(Object.entries(properties).map(([name, fields]) => [name, sample(fields)]));
    return { thief: 'thief' };
  };
  const { properties = {} } = components.schemas['io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'] ?? {};
  return new Map(Object.entries(properties).map(([name, schema]) => [name, sample(schema)]));
}
