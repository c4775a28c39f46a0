import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { driverName, leave, onDrain, parameters, tombstone } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import type { ReasonCode } from '../../src/explain/explanation.ts';
import { persistentVolumeClaims, persistentVolumes, pods, volumeSnapshots } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { on, size, WhyWorld } from './why-world.ts';

/** Copies, snapshots, growth, departure and removal of volumes, with all sidecars. Each test has nodes of its own. */
const world = await WhyWorld.start('shop', { callTimeout: '10m' });
const { admin, namespace, cluster } = world;

const small = size('1Gi');
const copyOf = (kind: string, name: string) => ({
  ...small,
  dataSource: { kind, name, ...(kind === 'VolumeSnapshot' && { apiGroup: 'snapshot.storage.k8s.io' }) },
});
const patchClaim = (name: string, body: object) =>
  admin.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace });
const annotate = (name: string, annotations: Record<string, string>) => patchClaim(name, { metadata: { annotations } });

/** Waits until the reason is this one; asserts its sentence. */
async function isReason(...[code, word, sentence]: [ReasonCode, string, string | RegExp]) {
  const found = await world.becomes(code, word);
  if (typeof sentence === 'string') assert.equal(found, sentence);
  else assert.match(found, sentence);
}

async function volumeNameOf(claim: string): Promise<string> {
  return (await admin.get(persistentVolumeClaims, claim, { namespace }))?.spec?.volumeName ?? '';
}

async function snapshot(name: string, persistentVolumeClaimName: string): Promise<void> {
  const spec = { volumeSnapshotClassName: 'moorage', source: { persistentVolumeClaimName } };
  await admin.create(volumeSnapshots, { metadata: { name, namespace }, spec });
}

before(async () => {
  await cluster.kubectl('apply', `-f${cluster.binaries.snapshotManifests}`);
  await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
  const snapshotClass = `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: { name: moorage }
driver: ${driverName}
deletionPolicy: Delete
`;
  await cluster.kubectl('apply', `-f${await world.file(snapshotClass)}`);
});

describe('a volume', { concurrency: true }, () => {
  test('is being copied, on its node or to another one, and its source is kept meanwhile', async () => {
    for (const name of ['copier', 'origin', 'distant']) await world.node(name);
    await world.volume('original', 'copier', small);
    await world.stopAgent('copier');
    await world.claim('copy', copyOf('PersistentVolumeClaim', 'original'));
    await world.pod('copy', ['copy'], on('copier'));
    await isReason('BeingCopied', 'pvc/copy', 'claim copy waits: its data is being copied on node copier');
    await world.delete('original');
    await isReason(
      'UsedAsSource',
      'original',
      'claim original waits: it is being deleted while claim copy copies it; it goes when the copy is complete or deleted',
    );
    await world.volume('source', 'origin', small);
    await world.claim('bound-to-source', copyOf('PersistentVolumeClaim', 'source'));
    await world.pod('far', ['bound-to-source'], on('distant'));
    // First csi-provisioner reports it, then the copy is created beside its source.
    assert.equal(
      await world.becomes('SourceElsewhere', 'far', 'is a copy'),
      'pod far waits: its claim bound-to-source is a copy, and is with its source on node origin: it does not have the label kubernetes.io/hostname=distant; let its pod run on origin, or create the claim again with the annotation moorage.dev/cross-node: allow',
    );
    await world.claim('across', copyOf('PersistentVolumeClaim', 'source'), {
      annotations: { [parameters.crossNode]: 'allow' },
    });
    await world.pod('across', ['across'], on('distant'));
    assert.equal(
      await world.becomes('BeingCopied', 'pvc/across', '(copies'),
      'claim across waits: its data is being copied from node origin to node distant (copies the data from node origin)',
    );
  });

  test('is not snapshotted yet, and its snapshot is kept while it is restored', async () => {
    await world.node('camera');
    await world.volume('pictured', 'camera', small);
    await snapshot('before', 'pictured');
    await isReason(
      'SnapshotControllerMissing',
      'volumesnapshot/before',
      'VolumeSnapshot before waits: nothing acts on it: the cluster has no snapshot-controller, or it does not run; install it: it is not part of Moorage',
    );
    await world.sidecar('csi-snapshotter');
    await world.snapshotController();
    await isReason('Fine', 'volumesnapshot/before', 'VolumeSnapshot before is ready to use');
    await world.stopAgent('camera');
    await snapshot('after', 'pictured');
    await isReason('SnapshotBeingCreated', 'volumesnapshot/after', 'VolumeSnapshot after waits: it is being created');
    await world.claim('restored', copyOf('VolumeSnapshot', 'before'));
    await world.pod('restored', ['restored'], on('camera'));
    await isReason('BeingCopied', 'pvc/restored', 'claim restored waits: its data is being copied on node camera');
    await admin.delete(volumeSnapshots, 'before', { namespace });
    await isReason(
      'SnapshotInUse',
      'volumesnapshot/before',
      'VolumeSnapshot before waits: it is being deleted, and claim restored is being created from it; it goes when the claim is bound or deleted',
    );
  });

  test('grows, and needs a pod for its filesystem', async () => {
    await world.node('garden');
    await world.volume('plant', 'garden', small);
    const grow = (storage: string) => patchClaim('plant', { spec: { resources: { requests: { storage } } } });
    await grow('2Gi');
    await isReason(
      'GrowthNeedsPod',
      'plant',
      'claim plant waits: its volume has 2Gi, and its filesystem grows when a pod uses it',
    );
    await world.volume('seed', 'garden', small);
    await world.stopAgent('garden');
    await patchClaim('seed', { spec: { resources: { requests: { storage: '3Gi' } } } });
    await isReason('Growing', 'seed', 'claim seed waits: it grows from 1Gi to 3Gi');
  });

  test('was deleted behind the back of its claim, or waits for its node', async () => {
    await world.node('cellar');
    for (const name of ['lost', 'stored']) await world.volume(name, 'cellar', small);
    const lost = await volumeNameOf('lost');
    await admin.delete(persistentVolumes, lost);
    await admin.patch(persistentVolumes, lost, { type: 'merge', body: { metadata: { finalizers: null } } });
    await isReason(
      'ClaimLost',
      'lost',
      `claim lost waits: its PersistentVolume ${lost} was deleted while the claim used it; restore the PersistentVolume with a claimRef that has this claim's uid`,
    );
    const stored = await volumeNameOf('stored');
    await world.stopAgent('cellar');
    await world.machines.powerOff('cellar');
    await world.delete('stored');
    await isReason(
      'RemovalWaitsForNode',
      `pv/${stored}`,
      `PersistentVolume ${stored} waits: its volume is removed by node cellar, and it is not ready; start the node`,
    );
  });

  test('cannot leave its node, or waits for its operator, and so does the eviction of its pod', async () => {
    await world.node('crowded');
    await world.node('narrow', { free: 0n });
    await world.volume('heavy', 'crowded', small);
    const spec = { claimName: 'heavy', targetNode: 'narrow', patient: true };
    await admin.create(volumeMoves, { metadata: { name: 'patient', namespace }, spec });
    await isReason(
      'MoveCannotBegin',
      'heavy',
      /^claim heavy waits: its volume cannot move yet: node narrow: .*1 GiB.*; the move begins by itself when this is solved$/,
    );
    await world.volume('shards', 'crowded', small);
    await world.pod('search', ['shards']);
    await eventually('the pod has its node', async () => {
      return Boolean((await admin.get(pods, 'search', { namespace }))?.spec?.nodeName);
    });
    const running = { type: 'merge', body: { status: { phase: 'Running' } } } as const;
    await admin.patch(pods, 'search', running, { namespace, subresource: 'status' });
    const [order] = tombstone.annotations;
    await annotate('shards', { [onDrain.annotation]: 'delegate', [order]: 'graceful' });
    await world.becomes('DataLeaving', 'pvc/shards');
    await annotate('shards', { [leave.message]: '1 of 2 shards is still here' });
    const leaving =
      /its operator was asked to leave node crowded at \S+: 1 of 2 shards is still here; claim and volume are deleted when the operator sets moorage\.dev\/left$/;
    await isReason('DataLeaving', 'pvc/shards', new RegExp(`^claim shards waits: ${leaving.source}`));
    await isReason(
      'DataLeaving',
      'pod/search',
      new RegExp(`^pod search waits: it runs, and its claim shards waits: ${leaving.source}`),
    );
    await world.volume('mistaken', 'crowded', small);
    await annotate('mistaken', { [order]: 'gently' });
    await isReason(
      'ReleaseOrdered',
      'mistaken',
      'claim mistaken waits: nothing is done about the order to release it: moorage.dev/delete is "gently"; use graceful or force',
    );
    await world.volume('typing', 'crowded', small);
    await annotate('typing', { [onDrain.annotation]: 'mvoe' });
    await isReason(
      'InvalidPolicy',
      'typing',
      'claim typing has an invalid policy: moorage.dev/on-drain is "mvoe", so its pod is not evicted when its node is drained; use one of wait, move, delegate, drop',
    );
  });
});
