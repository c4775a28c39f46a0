import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { type NodeStorageStatus, nodeStorages } from '../../src/api/node-storage.ts';
import { type VolumeMoveStatus, volumeMoves } from '../../src/api/volume-move.ts';
import { codeOf } from '../../src/base/errors.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { nodes } from '../../src/kube/resource.ts';
import { find, namespace, render } from './chart.ts';
import { InstalledChart } from './installed-chart.ts';

const chart = await InstalledChart.start('scheduler.enabled=true');
const { api } = chart;
const { kubectl } = api.cluster;
await api.cluster.registerNodes(2);
const [own, other] = ['registered-0', 'registered-1'] as const;
const uids = new Map<string, string>();
for (const nodeName of [own, other]) {
  const created = await api.admin.create(logicalVolumes, {
    metadata: { name: `on-${nodeName}`, finalizers: ['topolvm.io/logicalvolume'] },
    spec: { name: `on-${nodeName}`, nodeName, size: '1Gi' },
  });
  uids.set(nodeName, created.metadata.uid);
}

/** The thief's client: it has the token of the agent's pod on one node. */
const thief = await chart.agentOf(own);

const answer = (client: KubeClient, nodeName: string) =>
  client.patch(
    logicalVolumes,
    `on-${nodeName}`,
    { type: 'merge', body: { status: { volumeID: uids.get(nodeName), code: 0 } } },
    {
      subresource: 'status',
    },
  );
const removeFinalizer = (client: KubeClient, nodeName: string) =>
  client.patch(logicalVolumes, `on-${nodeName}`, { type: 'merge', body: { metadata: { finalizers: [] } } });
const patchNode = (client: KubeClient, nodeName: string, body: object) =>
  client.patch(nodes, nodeName, { type: 'merge', body });
const room = (bytes: string) => ({ metadata: { annotations: { 'capacity.topolvm.io/ssd': bytes } } });

async function assertRefused(request: Promise<unknown>, reason: RegExp): Promise<void> {
  await assert.rejects(request, (error: Error) => {
    assert.equal(codeOf(error), 'PermissionDenied');
    assert.match(error.message, reason);
    return true;
  });
}

test('an agent can update status and annotations of its LogicalVolumes, and capacity and finalizer of its Node', async () => {
  await answer(thief, own);
  for (const name of ['erased', 'filesystem-error', 'held-by', 'node-removed']) {
    for (const value of ['text', null]) {
      const body = { metadata: { annotations: { [`moorage.dev/${name}`]: value } } };
      await thief.patch(logicalVolumes, `on-${own}`, { type: 'merge', body });
    }
  }
  await patchNode(thief, own, room('1000'));
  await patchNode(thief, own, { metadata: { annotations: { 'moorage.dev/io-limits': 'true' } } });
  await patchNode(thief, own, { metadata: { finalizers: ['topolvm.cybozu.com/node'] } });
  await patchNode(thief, own, { metadata: { finalizers: [] } });
  await removeFinalizer(thief, own);
});

test('an agent can update a LogicalVolume whose volumeID is not its uid, but cannot choose such an ID', async () => {
  const name = 'rebuilt';
  await api.admin.create(logicalVolumes, { metadata: { name }, spec: { name, nodeName: own, size: '1Gi' } });
  const status = (client: KubeClient, body: object) =>
    client.patch(logicalVolumes, name, { type: 'merge', body: { status: body } }, { subresource: 'status' });
  await assertRefused(status(thief, { volumeID: 'from-tags' }), /only to the uid of the LogicalVolume/);
  await status(api.admin, { volumeID: 'from-tags' });
  await status(thief, { volumeID: 'from-tags', currentSize: '1Gi', code: 0, message: '' });
});

test('an agent can set the ID of a volume that it was told to adopt, but cannot decide to adopt one', async () => {
  const name = 'adopting';
  const metadata = { name, annotations: { 'moorage.dev/adopt': 'lost' } };
  await api.admin.create(logicalVolumes, { metadata, spec: { name, nodeName: own, size: '1Gi' } });
  const status = (volumeID: string) =>
    thief.patch(logicalVolumes, name, { type: 'merge', body: { status: { volumeID } } }, { subresource: 'status' });
  await assertRefused(status('another'), /to the volume that it adopts/);
  await assertRefused(
    thief.patch(logicalVolumes, 'rebuilt', {
      type: 'merge',
      body: { metadata: { annotations: metadata.annotations } },
    }),
    /only its own annotations/,
  );
  await status('lost');
});

test('an agent can answer that a volume was never used if the controller asks, and not otherwise', async () => {
  const annotate = (client: KubeClient, name: string, value: string | null) => {
    const body = { metadata: { annotations: { [`moorage.dev/${name}`]: value } } };
    return client.patch(logicalVolumes, 'rebuilt', { type: 'merge', body });
  };
  await assertRefused(annotate(thief, 'unclaimed', '2026-01-01T00:00:00Z'), /only its own annotations/);
  await assertRefused(annotate(thief, 'never-used', 'true'), /only if the controller asks/);
  await annotate(api.admin, 'unclaimed', '2026-01-01T00:00:00Z');
  await assertRefused(annotate(thief, 'unclaimed', null), /only its own annotations/);
  await assertRefused(annotate(thief, 'never-used', 'perhaps'), /may only answer "true"/);
  await annotate(thief, 'never-used', 'true');
  await assertRefused(annotate(thief, 'never-used', null), /may only answer "true"/);
  await annotate(thief, 'held-by', 'ssd');
});

test("a stolen token cannot touch another node's LogicalVolume", async () => {
  await assertRefused(answer(thief, other), /only the LogicalVolumes of its own node/);
  await assertRefused(removeFinalizer(thief, other), /only the LogicalVolumes of its own node/);
  const kept = await api.admin.get(logicalVolumes, `on-${other}`);
  assert.deepEqual(kept?.metadata.finalizers, ['topolvm.io/logicalvolume']);
  assert.equal(kept?.status, undefined);
});

test("a stolen token cannot touch another node's Node", async () => {
  await assertRefused(patchNode(thief, other, room('0')), /only its own Node/);
  await assertRefused(patchNode(thief, other, { metadata: { finalizers: [] } }), /only its own Node/);
  assert.equal((await api.admin.get(nodes, other))?.metadata.annotations?.['capacity.topolvm.io/ssd'], undefined);
});

test('a stolen token can change nothing else on its own Node', async () => {
  const onOwn = (body: object) => patchNode(thief, own, body);
  await assertRefused(onOwn({ spec: { unschedulable: false } }), /only annotations and finalizers/);
  await assertRefused(onOwn({ spec: { taints: [] } }), /only annotations and finalizers/);
  await assertRefused(onOwn({ metadata: { labels: { role: 'trusted' } } }), /only annotations and finalizers/);
  await assertRefused(onOwn({ metadata: { annotations: { 'example.org/x': '1' } } }), /annotations/);
  await assertRefused(onOwn({ metadata: { finalizers: ['example.org/x'] } }), /finalizers/);
});

test('a stolen token cannot change a spec, or create or delete a LogicalVolume', async () => {
  const larger = { type: 'merge', body: { spec: { size: '2Gi' } } } as const;
  await assertRefused(
    thief.patch(logicalVolumes, `on-${own}`, larger),
    /may not create or delete LogicalVolumes, or change their spec/,
  );
  const wanted = { metadata: { name: 'new' }, spec: { name: 'new', nodeName: own, size: '1Gi' } };
  await assertRefused(thief.create(logicalVolumes, wanted), /forbidden/);
  await assertRefused(thief.delete(logicalVolumes, `on-${own}`), /forbidden/);
});

test('a stolen token cannot access claims, secrets or pods', async () => {
  const account = `--as=system:serviceaccount:${namespace}:moorage-node`;
  const rights = await kubectl('auth', 'can-i', '--list', '--no-headers', '--namespace', namespace, account);
  const resources = [...rights.matchAll(/^(\S+) .*\[([a-z ]*)\]$/gm)].map(
    ([, resource, verbs]) => `${resource}: ${verbs}`,
  );
  const everybody = /^(selfsubject\w+\.(authentication|authorization)\.k8s\.io: create|\[.*)/;
  assert.deepEqual(resources.filter((right) => !everybody.test(right)).sort(), [
    'logicalvolumes.topolvm.io/status: patch',
    'logicalvolumes.topolvm.io: list watch patch',
    'nodes: list watch patch',
    'nodestorages.moorage.dev: create patch',
    'volumemoves.moorage.dev/status: patch',
    'volumemoves.moorage.dev: list watch',
  ]);
});

test('an agent can write the NodeStorage of its own node, and no other; it cannot delete it or set its metadata', async () => {
  const status: NodeStorageStatus = {
    nodeUID: 'u',
    updatedAt: '2026-01-01T00:00:00Z',
    health: 'Healthy',
    pools: [],
    erasures: { total: 0, volumes: [] },
    orphans: { total: 0, volumes: [] },
    versions: {},
    features: {},
  };
  const apply = (client: KubeClient, name: string, body: object = { status }) =>
    client.patch(nodeStorages, name, { type: 'apply', body, fieldManager: 'moorage-node', force: true });
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: own, uid: 'u' }];
  for (const metadata of [{ ownerReferences }, { finalizers: ['a/b'] }, { labels: { a: 'b' } }]) {
    await assertRefused(apply(thief, own, { metadata, status }), /may not set or change the metadata/);
  }
  await apply(thief, own);
  await apply(thief, own, { status: { ...status, nodeUID: 'v' } });
  assert.equal((await api.admin.get(nodeStorages, own))?.status?.nodeUID, 'v');
  for (const metadata of [{ ownerReferences }, { finalizers: ['a/b'] }, { annotations: { a: 'b' } }]) {
    await assertRefused(apply(thief, own, { metadata, status }), /may not set or change the metadata/);
  }
  await api.admin.patch(nodeStorages, own, { type: 'merge', body: { metadata: { labels: { rack: '1' } } } });
  await apply(thief, own);
  assert.deepEqual((await api.admin.get(nodeStorages, own))?.metadata.labels, { rack: '1' }, 'labels of others stay');
  const withoutLabels = { type: 'merge', body: { metadata: { labels: null } } } as const;
  await assertRefused(thief.patch(nodeStorages, own, withoutLabels), /may not set or change the metadata/);
  await assertRefused(thief.delete(nodeStorages, own), /forbidden/);

  await assertRefused(apply(thief, other), /only the NodeStorage of its own node/);
  assert.equal(await api.admin.get(nodeStorages, other), undefined);
  await apply(api.admin, other);
  await assertRefused(apply(thief, other, { status: { ...status, nodeUID: 'w' } }), /of its own node/);
  await assertRefused(apply(await chart.clientOf('moorage-node'), own), /not bound to a node/);
});

test('a token that is not bound to a node can change nothing', async () => {
  const anybody = await chart.clientOf('moorage-node');
  await assertRefused(answer(anybody, own), /not bound to a node/);
  await assertRefused(patchNode(anybody, own, room('0')), /not bound to a node/);
});

test('a token that is bound to the Node itself works too', async () => {
  const bound = await chart.clientOf('moorage-node', '--bound-object-kind=Node', `--bound-object-name=${own}`);
  await patchNode(bound, own, room('2000'));
});

test('pods that need no privileges on their node are admitted in a restricted namespace', async () => {
  await kubectl('create', 'namespace', 'restricted');
  await kubectl('label', 'namespace', 'restricted', 'pod-security.kubernetes.io/enforce=restricted');
  const objects = await render('scheduler.enabled=true', 'snapshot.enabled=true');
  const asPod = (kind: string, name: string) => {
    const { template } = find(objects, kind, name)['spec'] as { template: { spec: object } };
    const { serviceAccountName: _, priorityClassName: __, ...spec } = template.spec as Record<string, unknown>;
    return stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'restricted' }, spec });
  };
  const restricted = [
    asPod('Deployment', 'moorage-controller'),
    asPod('Deployment', 'moorage-scheduler'),
    asPod('Job', 'moorage-uninstall-check'),
  ];
  for (const [index, pod] of restricted.entries()) await chart.apply(`restricted-${index}`, pod, '--dry-run=server');
  await assert.rejects(
    chart.apply('privileged', asPod('DaemonSet', 'moorage-node'), '--dry-run=server'),
    /violates PodSecurity/,
  );
});

test('an agent can write only its own end of a move, and nothing else of it', async () => {
  const controller = await chart.clientOf('moorage-controller');
  const place = { namespace: 'default' };
  const moves = { from: { sourceNode: own, targetNode: other }, to: { sourceNode: other, targetNode: own } };
  const onStatus = { ...place, subresource: 'status' } as const;
  const patch = (by: KubeClient, name: string, status: VolumeMoveStatus) =>
    by.patch(volumeMoves, name, { type: 'merge', body: { status } }, onStatus);
  for (const [name, nodesOfMove] of Object.entries(moves)) {
    await api.admin.create(volumeMoves, { metadata: { name, ...place }, spec: { claimName: 'data' } });
    await patch(controller, name, { phase: 'Copying', ...nodesOfMove });
  }
  await patch(thief, 'from', { source: { certificate: 'ours', fenced: true } });
  await patch(thief, 'to', { target: { certificate: 'ours', converged: true } });
  await assertRefused(
    patch(thief, 'from', { target: { certificate: 'stolen' } }),
    /write the target of a VolumeMove only/,
  );
  await assertRefused(
    patch(thief, 'to', { source: { certificate: 'stolen' } }),
    /write the source of a VolumeMove only/,
  );
  await assertRefused(patch(thief, 'from', { phase: 'Cleaning' }), /only source and target/);
  await assertRefused(patch(thief, 'to', { sourceNode: own }), /only source and target/);
  await assertRefused(
    patch(thief, 'to', { manifest: '{}', verdict: { round: 1, bytes: 1, sha256: '' } }),
    /only source/,
  );
  await assertRefused(thief.delete(volumeMoves, 'from', place), /forbidden/);
  const spec = { claimName: 'data' };
  await assertRefused(thief.create(volumeMoves, { metadata: { name: 'new', ...place }, spec }), /forbidden/);
});
