import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { drainedFromAnnotation, leave, reserve, tombstone } from '../../src/api/names.ts';
import { codeOf } from '../../src/base/errors.ts';
import { selfSigned } from '../../src/http/self-signed.ts';
import type { Patch } from '../../src/kube/client.ts';
import {
  type KubeObject,
  mutatingWebhookConfigurations,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
} from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace } from '../kube/api-server.ts';
import { InstalledChart } from './installed-chart.ts';

const startupTaint = 'startup-taint.cluster-autoscaler.kubernetes.io/moorage';
const chart = await InstalledChart.start(
  'webhook.podMutatingWebhook.enabled=true',
  'localPv.enabled=true',
  `controller.autoscaler.startupTaint=${startupTaint}`,
);
const { admin } = chart.api;
const { kubectl } = chart.api.cluster;
const controller = await chart.clientOf('moorage-controller');
const namespace = await newNamespace(chart.api, 'shop');
const theirs = 'example.com/theirs';
await admin.create(nodes, {
  metadata: { name: 'a', finalizers: ['topolvm.cybozu.com/node', 'topolvm.io/node', theirs] },
});
await claim('data', ['topolvm.io/pvc', 'topolvm.cybozu.com/pvc', theirs]);

async function claim(name: string, finalizers: readonly string[]): Promise<void> {
  await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace, finalizers: [...finalizers], annotations: { 'example.com/owner': 'shop' } },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'none',
      resources: { requests: { storage: '1Gi' } },
    },
  });
}

type Body = Patch['body'];
const patchOf = (body: Body): Patch => (Array.isArray(body) ? { type: 'json', body } : { type: 'merge', body });
const ofNode = (body: Body) => controller.patch(nodes, 'a', patchOf(body));
const ofClaim = (body: Body) => controller.patch(persistentVolumeClaims, 'data', patchOf(body), { namespace });
const ofClaimStatus = (body: Body) =>
  controller.patch(persistentVolumeClaims, 'data', patchOf(body), { namespace, subresource: 'status' });
const ofWebhook = (body: Body) => controller.patch(mutatingWebhookConfigurations, 'moorage', patchOf(body));

async function refused(request: Promise<unknown>, reason: RegExp): Promise<void> {
  await assert.rejects(request, (error: Error) => {
    assert.equal(codeOf(error), 'PermissionDenied');
    assert.match(error.message, reason);
    return true;
  });
}

async function finalizersOf<T extends KubeObject>(resource: Resource<T>, name: string): Promise<readonly string[]> {
  const scope = resource.namespaced ? { namespace } : {};
  return (await admin.get(resource, name, scope))?.metadata.finalizers ?? [];
}

// Each probe is a new change: one that succeeded before the policy was in effect would change nothing when it is repeated.
let probes = 0;
await eventually('the policy is in effect', () =>
  ofNode({ metadata: { labels: { policy: `probe-${probes++}` } } }).then(
    () => false,
    (error: Error) => /only (its own )?finalizers/.test(error.message),
  ),
);
await admin.patch(nodes, 'a', { type: 'merge', body: { metadata: { labels: null } } });

await eventually('the policy for webhooks is in effect', () =>
  ofWebhook({ metadata: { labels: { policy: `probe-${probes++}` } } }).then(
    () => false,
    (error: Error) => /only caBundle/.test(error.message),
  ),
);

test('the API server compiles every rule of the policies', async () => {
  for (const name of [
    'moorage-controller',
    'moorage-controller-volumes',
    'moorage-controller-pods',
    'moorage-controller-static-volumes',
    'moorage-webhook',
    'moorage-node',
    'moorage-node-storage',
    'moorage-node-static-volumes',
    'moorage-logicalvolume',
    'moorage-volumemove',
    'moorage-storageclass',
  ]) {
    const status = await eventually('the API server has checked them', async () => {
      const text = await kubectl('get', 'validatingadmissionpolicy', name, '-ojson');
      const found = JSON.parse(text) as { status?: { observedGeneration?: number; typeChecking?: object } };
      return found.status?.observedGeneration === undefined ? undefined : found.status;
    });
    assert.deepEqual(status.typeChecking, {}, name);
  }
});

test('the controller can change caBundle of its webhook configuration, and nothing else', async () => {
  const { cert } = await selfSigned({ commonName: 'a', dnsName: 'a', nowMs: Date.now(), validForMs: 60_000 });
  const caBundle = Buffer.from(cert).toString('base64');
  const path = '/webhooks/0/clientConfig/caBundle';
  for (const step of [
    { op: 'add', path, value: caBundle },
    { op: 'remove', path },
  ] as const) {
    await ofWebhook([step]);
  }
  const onlyTrust = /the controller may change only caBundle of its webhook configuration/;
  for (const step of [
    { op: 'replace', path: '/webhooks/0/clientConfig', value: { url: 'https://thief.example.com', caBundle } },
    { op: 'replace', path: '/webhooks/0/clientConfig/service/name', value: 'thief' },
    { op: 'replace', path: '/webhooks/0/clientConfig/service/path', value: '/thief' },
    { op: 'replace', path: '/webhooks/0/rules/0/resources', value: ['*'] },
    { op: 'replace', path: '/webhooks/0/failurePolicy', value: 'Ignore' },
    { op: 'replace', path: '/webhooks/0/reinvocationPolicy', value: 'IfNeeded' },
    { op: 'remove', path: '/webhooks/0/namespaceSelector' },
    { op: 'add', path: '/webhooks/0/objectSelector', value: { matchLabels: { a: 'b' } } },
    { op: 'add', path: '/webhooks/0/matchConditions', value: [{ name: 'never', expression: 'false' }] },
    { op: 'remove', path: '/webhooks/0' },
  ] as const) {
    await refused(ofWebhook([step]), onlyTrust);
  }
  await refused(ofWebhook({ metadata: { labels: { app: 'pruned' } } }), onlyTrust);
  const { webhooks = [] } = (await admin.get(mutatingWebhookConfigurations, 'moorage')) ?? {};
  const second = { ...webhooks[0], name: 'second.topolvm.io' };
  await refused(ofWebhook([{ op: 'add', path: '/webhooks/-', value: second }]), onlyTrust);
});

test('the controller can remove its finalizers from Nodes, and change nothing else', async () => {
  await ofNode({ metadata: { finalizers: ['topolvm.io/node', theirs] } });
  await ofNode({ metadata: { finalizers: [theirs] } });
  await refused(ofNode({ metadata: { finalizers: [] } }), /only its own finalizers/);
  await refused(ofNode({ metadata: { finalizers: [theirs, 'example.com/kept'] } }), /only its own finalizers/);
  assert.deepEqual(await finalizersOf(nodes, 'a'), [theirs]);
  for (const body of [
    { spec: { unschedulable: true } },
    { spec: { taints: [{ key: 'a', effect: 'NoExecute' }] } },
    { metadata: { labels: { role: 'trusted' } } },
    { metadata: { annotations: { 'capacity.topolvm.io/00default': '0' } } },
    { metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'gone', uid: 'gone' }] } },
  ]) {
    await refused(ofNode(body), /only (its own )?finalizers/);
  }
});

test('the controller can remove the startup taint from a Node, and no other', async () => {
  const own = { key: startupTaint, effect: 'NoSchedule' } as const;
  const dedicated = { key: 'dedicated', value: 'db', effect: 'NoSchedule' } as const;
  await admin.patch(nodes, 'a', patchOf({ spec: { taints: [own, dedicated] } }));
  const reason = /only finalizers of a Node and remove the taint startup-taint/;
  await refused(ofNode({ spec: { taints: [own] } }), reason);
  await refused(ofNode({ spec: { taints: [dedicated, { ...own, key: 'theirs' }] } }), reason);
  await refused(ofNode({ spec: { taints: [dedicated], unschedulable: true } }), reason);
  await refused(ofNode({ spec: { taints: [{ ...dedicated, value: 'web' }] } }), reason);
  await ofNode({ spec: { taints: [dedicated] } });
  await refused(ofNode({ spec: { taints: [dedicated, own] } }), reason);
});

test('the controller can change only its own annotations and finalizers of a claim', async () => {
  const chosen = (name: string | null) => ({
    metadata: { annotations: { 'volume.kubernetes.io/selected-node': name } },
  });
  await ofClaim(chosen('a'));
  await ofClaim(chosen(null));
  const ofLeaving = [...Object.values(leave), drainedFromAnnotation];
  for (const name of [...tombstone.annotations, tombstone.confirm, tombstone.move, ...ofLeaving]) {
    await ofClaim({ metadata: { annotations: { [name]: 'force' } } });
    await ofClaim({ metadata: { annotations: { [name]: null } } });
  }
  const settled = { metadata: { annotations: { 'volume.kubernetes.io/node-expansion-not-required': 'yes' } } };
  await ofClaimStatus(settled); // csi-resizer 2 and newer
  const cloning = 'provisioner.storage.kubernetes.io/cloning-protection';
  const found = await finalizersOf(persistentVolumeClaims, 'data');
  const left = [theirs, 'kubernetes.io/pvc-protection'];
  assert.deepEqual(found, ['topolvm.io/pvc', 'topolvm.cybozu.com/pvc', ...left]);
  await ofClaim({ metadata: { finalizers: [...found, cloning] } });
  await ofClaim({ metadata: { finalizers: left } });
  for (const write of [ofClaim, ofClaimStatus]) {
    await refused(write({ metadata: { finalizers: [theirs] } }), /only its own finalizers/);
    await refused(write({ metadata: { finalizers: [...left, 'example.com/kept'] } }), /only its own finalizers/);
    await refused(write({ metadata: { annotations: { 'example.com/owner': 'thief' } } }), /only its own annotations/);
    await refused(write({ metadata: { annotations: { 'example.com/owner': null } } }), /only its own annotations/);
    await refused(write({ metadata: { labels: { app: 'pruned' } } }), /only (its own )?finalizers/);
    const owners = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: 'gone' }];
    await refused(write({ metadata: { ownerReferences: owners } }), /only (its own )?finalizers/);
  }
  await refused(ofClaim({ spec: { volumeName: 'stolen' } }), /spec/);
  assert.deepEqual(await finalizersOf(persistentVolumeClaims, 'data'), left);
});

test('the controller can create pods that never run, and nominate pods, and change nothing else of them', async () => {
  const home = { namespace: 'moorage-system' };
  const containers = [{ name: 'main', image: 'never-runs' }];
  const placeholder = (name: string, gates: readonly string[]) => ({
    metadata: { name, ...home, labels: { [reserve.label]: 'true' } },
    spec: {
      containers,
      schedulingGates: gates.map((gate) => ({ name: gate })),
      automountServiceAccountToken: false,
    },
  });
  await eventually('the namespace has its ServiceAccount', () => admin.create(pods, placeholder('probe', ['a'])));
  const onlyGated = /only pods with the scheduling gate moorage\.dev\/reserve/;
  await eventually('the policy is in effect', () =>
    controller.create(pods, placeholder(`probe-${probes++}`, [])).then(
      () => false,
      (error: Error) => onlyGated.test(error.message),
    ),
  );
  await refused(controller.create(pods, placeholder('other', ['example.com/gate'])), onlyGated);
  await refused(
    controller.create(pods, { ...placeholder('there', [reserve.gate]), metadata: { name: 'there', namespace } }),
    /cannot create/,
  );
  await controller.create(pods, placeholder('reserve-1', [reserve.gate]));

  await eventually('the pod is created', () =>
    admin.create(pods, { metadata: { name: 'db-0', namespace }, spec: { containers } }),
  );
  const change = (place: object, name: string, body: Body) =>
    controller.patch(pods, name, patchOf(body), { ...place, subresource: 'status' });
  await change(home, 'reserve-1', {
    metadata: { annotations: { [reserve.toldAnnotation]: 'leader' } },
    status: { nominatedNodeName: 'a' },
  });
  await change({ namespace }, 'db-0', { status: { nominatedNodeName: 'a' } });
  await change({ namespace }, 'db-0', { status: { nominatedNodeName: null } });
  for (const body of [
    { status: { phase: 'Failed' } },
    { status: { conditions: [{ type: 'Ready', status: 'True' }] } },
    { metadata: { annotations: { 'example.com/owner': 'thief' } } },
    { metadata: { labels: { app: 'other' } } },
  ]) {
    await refused(change({ namespace }, 'db-0', body), /may (not )?change (only nominatedNodeName|the metadata)/);
  }
  await refused(change(home, 'reserve-1', { metadata: { labels: { app: 'other' } } }), /the metadata of a pod/);
  const open = { type: 'json', body: [{ op: 'remove', path: '/spec/schedulingGates' }] } as const;
  await refused(controller.patch(pods, 'reserve-1', open, home), /cannot patch/);
});

test('only the controller can delete a LogicalVolume, unless the annotation allows it', async () => {
  const create = (name: string) =>
    admin.create(logicalVolumes, {
      metadata: { name, finalizers: ['topolvm.io/logicalvolume'] },
      spec: { name, nodeName: 'a', size: '1Gi' },
    });
  await create('of-a-claim');
  await create('of-another');
  const named = /deletes its data.* kubectl annotate logicalvolume of-a-claim moorage.dev\/allow-delete=true/;
  await refused(admin.delete(logicalVolumes, 'of-a-claim'), named);
  await assert.rejects(kubectl('delete', 'logicalvolumes', '--all', '--wait=false'), /deletes its data/);
  await assert.rejects(
    kubectl('delete', 'crd', 'logicalvolumes.topolvm.io', '--wait=false'),
    /deletes the data of all volumes.* kubectl annotate crd logicalvolumes.topolvm.io/,
  );
  await controller.delete(logicalVolumes, 'of-another');
  await admin.delete(logicalVolumes, 'of-another');
  await kubectl('annotate', 'logicalvolume', 'of-a-claim', 'moorage.dev/allow-delete=false');
  await refused(admin.delete(logicalVolumes, 'of-a-claim'), named);
  await kubectl('annotate', '--overwrite', 'logicalvolume', 'of-a-claim', 'moorage.dev/allow-delete=true');
  await admin.delete(logicalVolumes, 'of-a-claim');
  await create('refused');
  const status = { code: 8, message: 'no space' };
  await admin.patch(logicalVolumes, 'refused', { type: 'merge', body: { status } }, { subresource: 'status' });
  await admin.delete(logicalVolumes, 'refused');
  assert.ok((await admin.get(logicalVolumes, 'of-a-claim'))?.metadata.deletionTimestamp);
});

test('the controller can set a PersistentVolume to Retain, and neither have its data deleted nor bind it elsewhere', async () => {
  const ofVolume = (body: Body) => controller.patch(persistentVolumes, 'data', patchOf(body));
  const policy = (word: string) => ({ spec: { persistentVolumeReclaimPolicy: word } });
  await admin.create(persistentVolumes, {
    metadata: { name: 'data' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: 'none',
      persistentVolumeReclaimPolicy: 'Delete',
      csi: { driver: 'topolvm.io', volumeHandle: 'data' },
    },
  });
  await ofVolume({ spec: { capacity: { storage: '2Gi' } } }); // as csi-resizer does
  await ofVolume(policy('Retain'));
  await eventually('the policy for PersistentVolumes is in effect', () =>
    ofVolume(policy('Delete')).then(
      () => admin.patch(persistentVolumes, 'data', patchOf(policy('Retain'))).then(() => false),
      (error: Error) => /only to Retain/.test(error.message),
    ),
  );
  await refused(ofVolume(policy('Delete')), /change the reclaim policy of a PersistentVolume only to Retain/);
  await refused(ofVolume(policy('Recycle')), /only to Retain/);
  await refused(ofVolume({ spec: { claimRef: { namespace, name: 'thief' } } }), /another claim/);
  const found = await admin.get(persistentVolumes, 'data');
  assert.equal(found?.spec?.persistentVolumeReclaimPolicy, 'Retain');
});
