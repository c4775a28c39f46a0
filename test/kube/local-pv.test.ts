import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { localPvAnnotations, localPvFinalizer, localPvStatus } from '../../src/api/local-pv.ts';
import { nodeFinalizer, nodeRemovedAnnotation } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { runController } from '../../src/controller/controller-process.ts';
import {
  configMaps,
  nodes,
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { eventsOf, leadRemovals } from './removed-nodes.ts';

const prefix = 'local-pv.k8s.portavita.net/';
const nodeIdLabel = 'node-id.k8s.portavita.net/nodeid';
const examples = join(import.meta.dirname, '..', '..', 'deploy', 'examples', 'local-pv');

const api = await startApiServer();
const { admin, cluster } = api;
const namespace = await newNamespace(api, 'moorage-system');
const configMap = (yaml: string) => ({ metadata: { name: 'defaults', namespace }, data: { 'defaults.yaml': yaml } });
await admin.create(configMaps, configMap('defaults: {vg: bulk}'));
const createNode = (name: string, labels: Record<string, string>) =>
  admin.create(nodes, { metadata: { name, labels } });
await createNode('a', { [nodeIdLabel]: 'node01' });
await createNode('b', { 'kubernetes.io/hostname': 'host-b' });

// Serves static volumes only: the cluster has no CRDs of Moorage.
const stop = new AbortController();
const stopped = runController(
  {
    csi: false,
    csiSocket: '',
    localPv: true,
    localPvMountBase: '/mnt/pv',
    localPvDefaults: 'defaults',
    metricsAddress: '127.0.0.1:0',
    secureMetricsServer: false,
    enableWebhooks: false,
    evictionWebhook: false,
    webhookAddress: '',
    certDir: '',
    webhookService: '',
    skipNodeFinalize: false,
    freshNodeCapacity: new Map(),
    startupTaint: '',
    leaderElection: false,
    leaderElectionId: '',
    leaderElectionNamespace: namespace,
    leaseDurationMs: 0,
    renewDeadlineMs: 0,
    retryPeriodMs: 0,
    version: 'test',
  },
  { client: admin, clock: systemClock, log: silentLog },
  stop.signal,
);
after(async () => {
  stop.abort();
  await stopped;
});

interface Fields {
  readonly annotations?: Record<string, string>;
  readonly label?: readonly [key: string, value: string];
}

function createVolume(name: string, { annotations = {}, label = [nodeIdLabel, 'node01'] }: Fields = {}) {
  const [key, value] = label;
  return admin.create(persistentVolumes, {
    metadata: { name, annotations },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '64Mi' },
      storageClassName: name,
      persistentVolumeReclaimPolicy: 'Retain',
      local: { path: `/mnt/pv/${name}` },
      nodeAffinity: {
        required: { nodeSelectorTerms: [{ matchExpressions: [{ key, operator: 'In', values: [value] }] }] },
      },
    },
  });
}

/** In the class of the volume of the same name. Once that is available, Kubernetes binds it without a delay. */
async function createClaim(name: string) {
  await becomes(name, 'is available', ({ status }) => status?.phase === 'Available');
  const resources = { requests: { storage: '64Mi' } };
  return admin.create(persistentVolumeClaims, {
    metadata: { name, namespace },
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: name, resources },
  });
}

async function becomes(name: string, what: string, predicate: (volume: Stored<PersistentVolume>) => boolean) {
  const look = () => admin.get(persistentVolumes, name);
  await eventually(`${name}: ${what}`, async () => {
    const volume = await look();
    return volume !== undefined && predicate(volume);
  });
  return (await look()) ?? assert.fail();
}
const annotationsOf = ({ metadata }: Stored<PersistentVolume>) => metadata.annotations ?? {};
const nodeOf = (volume: Stored<PersistentVolume>) => annotationsOf(volume)[localPvAnnotations.node];
const isAssigned = (volume: Stored<PersistentVolume>) => nodeOf(volume) !== undefined;
const isGone = (name: string) =>
  eventually(`${name} is gone`, async () => (await admin.get(persistentVolumes, name)) === undefined);
const hasEvent = (name: string, pattern: RegExp, kind = 'PersistentVolume') =>
  eventually(
    `an Event about ${name} says ${pattern}`,
    async () => (await eventsOf(admin, kind, name)).some((event) => pattern.test(event)),
    { explain: async () => (await eventsOf(admin, kind, name)).join('\n') },
  );
/** What the agent of a node writes. */
const agentWrites = (name: string, annotations: Record<string, string | null>) =>
  admin.patch(persistentVolumes, name, { type: 'merge', body: { metadata: { annotations } } });

test('each wrong PersistentVolume of the examples gets a status and a message, and foreign ones are left alone', async () => {
  await cluster.kubectl('create', `--filename=${join(examples, 'errors.yaml')}`);
  const refused = cluster.kubectl('create', `--filename=${join(examples, 'no-node-affinity.yaml')}`);
  await assert.rejects(refused, /Local volume requires node affinity/);

  const messages = {
    'wrong-mountbase': /spec.local.path is \/mnt\/elsewhere\/wrong-mountbase; .*: write \/mnt\/pv\/wrong-mountbase$/,
    'localpath-mismatch': /spec.local.path is \/mnt\/pv\/another-name; .*: write \/mnt\/pv\/localpath-mismatch$/,
    'no-such-node': /no node matches spec.nodeAffinity: node-id.k8s.portavita.net\/nodeid In \(node99\)/,
    'unknown-fs': /fsType is "ntfs"; use one of ext4, xfs, btrfs/,
    'bad-option': /mountOpts contains "bind"/,
    'delete-policy': /persistentVolumeReclaimPolicy is Delete, .*; use Retain/,
  };
  for (const [name, pattern] of Object.entries(messages)) {
    const volume = await becomes(
      name,
      'has a message',
      (volume) => localPvAnnotations.message in annotationsOf(volume),
    );
    assert.match(annotationsOf(volume)[localPvAnnotations.message] ?? '', pattern);
    assert.equal(annotationsOf(volume)[localPvAnnotations.status], localPvStatus.failed);
    assert.ok(!volume.metadata.finalizers?.includes(localPvFinalizer), 'it can be deleted at once');
    await hasEvent(name, /^NotProcessed: /);
  }
  // The rest is decided by the agent of the node.
  for (const name of ['noannotations', 'allannotations', 'unknown-vg', 'too-big']) {
    const volume = await becomes(name, 'has a node', isAssigned);
    assert.equal(nodeOf(volume), 'a');
    assert.ok(volume.metadata.finalizers?.includes(localPvFinalizer));
    await hasEvent(name, /^NodeFound: found node a by the node affinity$/);
  }
  await hasEvent('allannotations', /^UnknownAnnotation: local-pv.k8s.portavita.net\/dummyField has no effect/);
  const nfs = await admin.get(persistentVolumes, 'nfs');
  assert.equal(nfs?.metadata.annotations, undefined);
});

test('kubectl moorage shows static volumes, also in a cluster without CSI', async () => {
  const plugin = kubectlMoorage({ columns: 120, colours: false });
  const printed: string[] = [];
  const shown = (...words: string[]) =>
    runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig }, printed });
  await shown('volumes', '-A');
  await assert.rejects(shown('status'), /2 found/);
  await shown('volume', 'unknown-fs');
  await shown('orphans');
  const [volumes = '', status = '', one = '', orphans] = printed;
  assert.match(volumes, /^\(unknown-fs\) .* Failed /m);
  assert.match(volumes, /^\(noannotations\) +- +a .* Creating /m);
  assert.doesNotMatch(volumes, /nfs/);
  assert.match(status, /6 volumes are Failed/);
  assert.match(status, /^✘ controller\n +there is none/m); // it is no Deployment, but in this process
  assert.match(one, /Reason: .*fsType is "ntfs"; use one of ext4, xfs, btrfs/s);
  assert.match(one, /NotProcessed +PersistentVolume\/unknown-fs/);
  assert.equal(orphans, 'No orphans.');
});

test('a node is found by any label, once it has it, and labels that change later never move a volume', async () => {
  await createVolume('by-hostname', { label: ['kubernetes.io/hostname', 'host-b'] });
  assert.equal(nodeOf(await becomes('by-hostname', 'has a node', isAssigned)), 'b');

  await createVolume('by-rack', { label: ['rack', '7'] });
  await becomes('by-rack', 'is refused', (volume) => localPvAnnotations.message in annotationsOf(volume));
  const label = (node: string, rack: string | null) =>
    admin.patch(nodes, node, { type: 'merge', body: { metadata: { labels: { rack } } } });
  await label('a', '7');
  const found = await becomes('by-rack', 'has a node', isAssigned);
  assert.equal(nodeOf(found), 'a');
  assert.ok(!(localPvAnnotations.message in annotationsOf(found)), 'the fault is gone');
  assert.ok(!(localPvAnnotations.status in annotationsOf(found)));

  await label('a', null);
  await label('b', '7');
  await hasEvent('by-rack', /^NodeMismatch: the volume is on node a, but .* now matches b; a volume does not move/);
  assert.equal(nodeOf(await becomes('by-rack', 'has a node', isAssigned)), 'a');
});

test('a deleted PersistentVolume stays until the agent has removed its volume', async () => {
  await createVolume('deleted');
  await becomes('deleted', 'has a node', isAssigned);
  await admin.delete(persistentVolumes, 'deleted');
  await createVolume('later');
  await becomes('later', 'has a node', isAssigned); // the controller has seen the deletion, too
  const waiting = await admin.get(persistentVolumes, 'deleted');
  assert.ok(waiting?.metadata.finalizers?.includes(localPvFinalizer));
  await agentWrites('deleted', { [localPvAnnotations.removed]: 'true' });
  await isGone('deleted');
  await hasEvent('deleted', /^VolumeRemoved: removed the volume from node a$/);
});

test('a deleted PersistentVolume is given up when its node is not in the cluster', async () => {
  await createNode('c', { [nodeIdLabel]: 'node03' });
  await createVolume('far', { label: [nodeIdLabel, 'node03'] });
  await becomes('far', 'has a node', isAssigned);
  await admin.delete(nodes, 'c');
  await hasEvent('far', /^NodeGone: node c, which has the volume, is not in the cluster/);
  assert.ok(await admin.get(persistentVolumes, 'far'), 'a missing Node alone decides nothing');
  await admin.delete(persistentVolumes, 'far');
  await isGone('far');
  await hasEvent('far', /^VolumeGivenUp: .* its data is still on the disks of that machine$/);
});

test('a released volume becomes available after its agent has emptied it, and not before', async () => {
  await createVolume('reused', { annotations: { [`${prefix}autoRelease`]: 'true' } });
  const claim = await createClaim('reused');
  const phase = (name: string) => becomes('reused', name, ({ status }) => status?.phase === name);
  await phase('Bound');
  await admin.delete(persistentVolumeClaims, 'reused', { namespace });
  await phase('Released');
  await agentWrites('reused', { [localPvAnnotations.released]: 'the uid of another claim' });
  await agentWrites('reused', { [localPvAnnotations.released]: claim.metadata.uid });
  const volume = await phase('Available');
  assert.equal(volume.spec?.claimRef, undefined);
  assert.ok(!(localPvAnnotations.released in annotationsOf(volume)));
  await hasEvent('reused', new RegExp(`^VolumeEmptied: emptied after claim ${namespace}/reused was deleted`));
});

test('invalid defaults are reported on their ConfigMap, and the last valid ones stay in use', async () => {
  const apply = (yaml: string) =>
    admin.patch(configMaps, 'defaults', { type: 'merge', body: configMap(yaml) }, { namespace });
  await apply('defaults: {fsType: ntfs}');
  await hasEvent(
    'defaults',
    /^InvalidDefaults: .*defaults.fsType is "ntfs".*; the last valid ones stay in use$/,
    'ConfigMap',
  );
  await createVolume('with-old-defaults');
  await becomes('with-old-defaults', 'has a node', isAssigned);
  await apply('defaults: {fsType: xfs}');
});

test('when a Node is deleted, claims of its static volumes are dropped, kept or wait, and the volumes stay', async (t) => {
  await cluster.kubectl('apply', `--filename=${join(examples, '..', '..', 'crd.yaml')}`);
  await cluster.kubectl('wait', '--for=condition=Established', 'crd/logicalvolumes.topolvm.io');
  await admin.create(nodes, {
    metadata: { name: 'd', labels: { [nodeIdLabel]: 'node04' }, finalizers: [nodeFinalizer] },
  });
  const onNodeRemoval = 'moorage.dev/on-node-removal';
  const claims = { dropped: undefined, kept: 'keep', undecided: 'wait', 'later-kept': 'wait' };
  for (const [name, policy] of Object.entries(claims)) {
    const annotations = { [`${prefix}autoRelease`]: 'true', ...(policy && { [onNodeRemoval]: policy }) };
    await createVolume(name, { annotations, label: [nodeIdLabel, 'node04'] });
    await createClaim(name);
    await becomes(name, 'is bound and has a node', (volume) => volume.status?.phase === 'Bound' && isAssigned(volume));
  }
  leadRemovals(t, admin);
  await admin.delete(nodes, 'd');
  await eventually('the Node is gone', async () => (await admin.get(nodes, 'd')) === undefined);

  const isReleased = (name: string) => becomes(name, 'is released', ({ status }) => status?.phase === 'Released');
  const isEmptiedOnReturn = (volume: Stored<PersistentVolume>) =>
    annotationsOf(volume)[`${prefix}autoRelease`] === 'true';
  assert.equal(isEmptiedOnReturn(await isReleased('dropped')), true);
  assert.equal(isEmptiedOnReturn(await isReleased('kept')), false);
  const decide = (name: string, word: string) => {
    const body = { metadata: { annotations: { [onNodeRemoval]: word } } };
    return admin.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace });
  };
  await decide('later-kept', 'keep');
  assert.equal(isEmptiedOnReturn(await isReleased('later-kept')), false);
  assert.equal((await admin.get(persistentVolumes, 'undecided'))?.status?.phase, 'Bound');

  await createNode('d', { [nodeIdLabel]: 'node04' });
  const isForgotten = (volume: Stored<PersistentVolume>) => !(nodeRemovedAnnotation in annotationsOf(volume));
  await becomes('undecided', 'is no longer of a removed node', isForgotten);
  await admin.delete(nodes, 'd');
  await decide('undecided', 'drop');
  await hasEvent('undecided', /^NodeGone: /);
  const claim = await admin.get(persistentVolumeClaims, 'undecided', { namespace });
  assert.equal(claim?.metadata.deletionTimestamp, undefined, 'a missing Node alone decides nothing');
});
