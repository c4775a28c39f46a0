import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { localPvAnnotations, localPvFinalizer, localPvOptions } from '../../src/api/local-pv.ts';
import { codeOf } from '../../src/base/errors.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { nodes, persistentVolumeClaims, persistentVolumes } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace } from '../kube/api-server.ts';
import { find, namespace, objectsIn, textOf } from './chart.ts';
import { InstalledChart } from './installed-chart.ts';

const chart = await InstalledChart.of('local-pv', 'localPv.cryptSecrets={key-of-search,key-of-db}');
const { admin, cluster } = chart.api;
const [own, other] = ['node-of-the-agent', 'another-node'] as const;
for (const name of [own, other]) await admin.create(nodes, { metadata: { name } });
const agent = await chart.tokenOf(own);
const controller = await chart.clientOf('moorage-controller');
const theirs = 'example.com/theirs';

/** A static volume as the controller has assigned it to a node. */
async function staticVolume(name: string, node: string, finalizers = [localPvFinalizer, theirs]): Promise<string> {
  const expression = { key: 'kubernetes.io/hostname', operator: 'In', values: [node] };
  await admin.create(persistentVolumes, {
    metadata: { name, finalizers, annotations: { [localPvAnnotations.node]: node, 'example.com/owner': 'shop' } },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: name,
      persistentVolumeReclaimPolicy: 'Retain',
      local: { path: `/mnt/pv/${name}` },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    },
  });
  return name;
}

const mine = await staticVolume('mine', own);
const foreign = await staticVolume('foreign', other);
const patch = (client: KubeClient, name: string, body: object) =>
  client.patch(persistentVolumes, name, { type: 'merge', body });
const annotate = (client: KubeClient, name: string, annotations: Record<string, string | null>) =>
  patch(client, name, { metadata: { annotations } });

const finalizersOf = async (name: string) => (await admin.get(persistentVolumes, name))?.metadata.finalizers ?? [];

async function refused(request: Promise<unknown>, reason: RegExp): Promise<void> {
  await assert.rejects(request, (error: Error) => {
    assert.equal(codeOf(error), 'PermissionDenied');
    assert.match(error.message, reason);
    return true;
  });
}

const isInForce = (request: () => Promise<unknown>, words: RegExp) => () =>
  request().then(
    () => false,
    (error: Error) => words.test(error.message),
  );
await eventually(
  'the policy for agents is in force',
  isInForce(() => annotate(agent, foreign, {}), /only static volumes of its own node/),
);
await eventually(
  'the policy for the controller is in force',
  isInForce(() => patch(controller, mine, { spec: { mountOptions: ['sync'] } }), /may not change the spec/),
);

test('an agent can write what a static volume of its node has got, and what it has done', async () => {
  const { status, size, mountPoint, processed, message, released, removed } = localPvAnnotations;
  const { fsType, fsOpts, mountOpts, vg, cryptSecret, deviceClass } = localPvOptions;
  const got = [status, size, mountPoint, processed, message, released, removed];
  for (const name of [...got, fsType, fsOpts, mountOpts, vg, cryptSecret, deviceClass]) {
    for (const value of ['text', null]) await annotate(agent, mine, { [name]: value });
  }
});

test('an agent can change no static volume of another node, and none that the controller has not assigned', async () => {
  const unassigned = await staticVolume('unassigned', own, [theirs]);
  for (const name of [foreign, unassigned]) {
    await refused(annotate(agent, name, { [localPvAnnotations.message]: 'x' }), /only static volumes of its own node/);
  }
  const stolen = { metadata: { annotations: { [localPvAnnotations.node]: own } } };
  await refused(patch(agent, foreign, stolen), /only static volumes of its own node/);
  const anybody = await chart.clientOf('moorage-node');
  await refused(annotate(anybody, mine, { [localPvAnnotations.message]: 'x' }), /not bound to a node/);
});

test('an agent can change nothing else of a static volume of its node', async () => {
  const { node, adopt } = localPvAnnotations;
  const { autoRelease, onRelease, onRemoval } = localPvOptions;
  for (const name of [
    node,
    adopt,
    autoRelease,
    onRelease,
    onRemoval,
    'example.com/owner',
    'moorage.dev/node-removed',
  ]) {
    await refused(annotate(agent, mine, { [name]: 'x' }), /only its own annotations/);
  }
  await refused(annotate(agent, mine, { [node]: null }), /only its own annotations/);
  await refused(patch(agent, mine, { metadata: { finalizers: [] } }), /only annotations in the metadata/);
  await refused(patch(agent, mine, { metadata: { labels: { a: 'b' } } }), /only annotations in the metadata/);
  await refused(patch(agent, mine, { spec: { capacity: { storage: '2Gi' } } }), /only annotations of a Persistent/);
  const claimRef = { namespace: 'shop', name: 'db' };
  await refused(patch(agent, mine, { spec: { claimRef } }), /only annotations of a PersistentVolume/);
  await refused(agent.delete(persistentVolumes, mine), /forbidden/);
});

test('the controller can assign a node, refuse a volume, and record that a node was removed', async () => {
  const name = await staticVolume('new', own, [theirs]);
  const { node, status, message, processed, released, removed } = localPvAnnotations;
  const finalizers = [...(await finalizersOf(name)), localPvFinalizer];
  const annotations = { [node]: other, [status]: null, [message]: null, [released]: null, [removed]: null };
  await patch(controller, name, { metadata: { finalizers, annotations: { ...annotations, [processed]: 'true' } } });
  await annotate(controller, name, { [status]: 'Not-Processed-Errors', [message]: 'no node' });
  await annotate(controller, name, { 'moorage.dev/node-removed': 'uid', [localPvOptions.autoRelease]: 'false' });
});

test('the controller can change nothing else of a static volume, and nothing of other PersistentVolumes', async () => {
  for (const name of ['example.com/owner', localPvOptions.onRelease, localPvOptions.vg, localPvAnnotations.adopt]) {
    await refused(annotate(controller, mine, { [name]: 'x' }), /only its own annotations/);
  }
  const kept = [localPvFinalizer, 'kubernetes.io/pv-protection'];
  await refused(patch(controller, mine, { metadata: { finalizers: kept } }), /only its own finalizer/);
  await refused(patch(controller, mine, { metadata: { labels: { a: 'b' } } }), /only annotations and finalizers/);
  await refused(patch(controller, mine, { spec: { capacity: { storage: '2Gi' } } }), /may not change the spec/);
  const policy = { persistentVolumeReclaimPolicy: 'Delete' };
  await refused(patch(controller, mine, { spec: policy }), /may not change the spec/);
  await admin.create(persistentVolumes, {
    metadata: { name: 'nfs' },
    spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, nfs: { server: 'nfs', path: '/' } },
  });
  await refused(
    annotate(controller, 'nfs', { [localPvAnnotations.message]: 'x' }),
    /only PersistentVolumes with a local path/,
  );
  await refused(controller.delete(persistentVolumes, mine), /forbidden/);
});

test('the controller can remove its finalizer only from a deleted static volume', async () => {
  const name = await staticVolume('deleted', own);
  const removeOurs = async () => {
    const finalizers = (await finalizersOf(name)).filter((each) => each !== localPvFinalizer);
    return patch(controller, name, { metadata: { finalizers } });
  };
  await refused(removeOurs(), /remove it only when the volume is deleted/);
  await admin.delete(persistentVolumes, name);
  await eventually('it is removed, though Kubernetes removes one too', removeOurs);
});

test('the controller can remove the claimRef only after the agent has emptied the volume for that claim', async () => {
  const shop = await newNamespace(chart.api, 'shop');
  const name = await staticVolume('claimed', own);
  const hasPhase = async (phase: string) => (await admin.get(persistentVolumes, name))?.status?.phase === phase;
  await eventually('it is available', () => hasPhase('Available'));
  const claim = await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace: shop },
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: name, resources: { requests: { storage: '1Gi' } } },
  });
  await eventually('it is bound', () => hasPhase('Bound'));
  const withoutClaim = { spec: { claimRef: null } };
  await annotate(agent, name, { [localPvAnnotations.released]: claim.metadata.uid });
  await refused(patch(controller, name, withoutClaim), /only from a released static volume/);
  await admin.delete(persistentVolumeClaims, name, { namespace: shop });
  await eventually('it is released', () => hasPhase('Released'));
  await annotate(agent, name, { [localPvAnnotations.released]: 'another claim' });
  await refused(patch(controller, name, withoutClaim), /only from a released static volume/);
  await annotate(agent, name, { [localPvAnnotations.released]: claim.metadata.uid });
  await refused(
    patch(controller, name, { spec: { claimRef: { name: 'thief' } } }),
    /only from a released static volume/,
  );
  await patch(controller, name, {
    ...withoutClaim,
    metadata: { annotations: { [localPvAnnotations.released]: null } },
  });
});

test('agents and controller can do what they need, and nothing else', async () => {
  const rightsOf = async (account: string) => {
    const as = `--as=system:serviceaccount:${namespace}:${account}`;
    const listed = await cluster.kubectl('auth', 'can-i', '--list', '--no-headers', '--namespace', namespace, as);
    const rights = [...listed.matchAll(/^(\S+) .*\[([^\]]*)\] +\[([a-z ]*)\]$/gm)].map(
      ([, resource, names, verbs]) => `${[resource, names].filter(Boolean).join(' ')}: ${verbs}`,
    );
    return rights.filter((right) => !/^(selfsubject|\[)/.test(right)).sort();
  };
  assert.deepEqual(await rightsOf('moorage-node'), [
    'configmaps moorage-local-pv: list watch',
    'persistentvolumes: get list watch patch',
    'secrets key-of-db: get',
    'secrets key-of-search: get',
  ]);
  assert.deepEqual(await rightsOf('moorage-controller'), [
    'configmaps moorage-local-pv: list watch',
    'events.events.k8s.io: create',
    'leases.coordination.k8s.io: get list watch create patch',
    'nodes: get list watch',
    'persistentvolumes: list watch patch',
  ]);
});

test('only the agents need a namespace that allows privileged pods', async () => {
  const restricted = await newNamespace(chart.api, 'restricted');
  await cluster.kubectl('label', 'namespace', restricted, 'pod-security.kubernetes.io/enforce=restricted');
  const objects = objectsIn(await textOf('local-pv', []));
  const asPod = (kind: string, name: string) => {
    const { template } = find(objects, kind, name)['spec'] as { template: { spec: object } };
    const { serviceAccountName: _, priorityClassName: __, ...spec } = template.spec as Record<string, unknown>;
    return stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: restricted }, spec });
  };
  for (const [kind, name] of [
    ['Deployment', 'moorage-controller'],
    ['Job', 'moorage-uninstall-check'],
  ] as const) {
    await chart.apply(name, asPod(kind, name), '--dry-run=server');
  }
  const agents = chart.apply('agents', asPod('DaemonSet', 'moorage-node'), '--dry-run=server');
  await assert.rejects(agents, /violates PodSecurity/);
});
