import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import {
  csiDrivers,
  persistentVolumeClaims,
  persistentVolumes,
  type StatefulSet,
  statefulSets,
} from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { on, size, WhyWorld } from './why-world.ts';

/** Why a claim has no volume, does not grow, or does not go: each reason with real controllers and csi-provisioner. */
const world = await WhyWorld.start('shop');
const { admin, namespace } = world;

const claimOf = (name: string) => admin.get(persistentVolumeClaims, name, { namespace });
const saidOf = async (word: string) => (await world.why(word)).sentence;

before(async () => {
  await world.node('a');
  await world.node('mute', { hasAgent: false });
  await world.node('liar', { poolGibi: 1n });
  await admin.create(csiDrivers, { metadata: { name: 'idle.example.com' }, spec: {} });
  await world.storageClass('idle', { provisioner: 'idle.example.com', volumeBindingMode: 'Immediate' });
  await world.claim('ignored', { storageClassName: 'idle' });
});

test('the class is not set, empty, missing, or of a provisioner that is not installed', async () => {
  await world.claim('classless', { storageClassName: undefined });
  assert.equal(
    await world.becomes('NoStorageClass', 'classless'),
    'claim classless waits: it names no StorageClass, and the cluster has no default; mark a StorageClass as the default: the claim then gets it',
  );
  await world.claim('by-hand', { storageClassName: '' });
  assert.match(
    await world.becomes('EmptyStorageClass', 'by-hand'),
    /^claim by-hand waits: its storageClassName is empty/,
  );
  await world.claim('mistyped', { storageClassName: 'fasst' });
  assert.equal(
    await world.becomes('StorageClassMissing', 'mistyped'),
    'claim mistyped waits: there is no StorageClass fasst (did you mean fast?); create it, or create the claim again with another one',
  );
  await world.storageClass('foreign', { provisioner: 'topolvm.com' });
  await world.claim('foreign', { storageClassName: 'foreign' });
  assert.equal(
    await world.becomes('ProvisionerUnknown', 'foreign'),
    'claim foreign waits: StorageClass foreign names the provisioner topolvm.com, which is not installed; install it, or use a StorageClass with idle.example.com or topolvm.io',
  );
});

test('a claim that no pod uses waits for one, which is normal', async () => {
  await world.claim('unused');
  await world.becomes('WaitsForPod', 'unused');
  const printed = await world.print('unused');
  assert.equal(
    printed,
    [
      '… claim unused waits: its volume is created when a pod uses it, and none does; this is normal',
      '',
      '    StorageClass fast: volumeBindingMode WaitForFirstConsumer',
      '    no pod names claim unused',
    ].join('\n'),
  );
});

test('the named PersistentVolume is missing, does not fit, belongs to a former claim, or was deleted', async () => {
  await world.claim('lonely', { volumeName: 'disk-1' });
  assert.equal(
    await world.becomes('VolumeMissing', 'lonely'),
    'claim lonely waits: it names PersistentVolume disk-1, which does not exist; create it, or create the claim again without volumeName',
  );
  const spec = {
    accessModes: ['ReadWriteOnce'],
    capacity: { storage: '5Gi' },
    storageClassName: 'fast',
    persistentVolumeReclaimPolicy: 'Retain',
    csi: { driver: driverName, volumeHandle: 'by-hand' },
  };
  await admin.create(persistentVolumes, { metadata: { name: 'disk-2' }, spec });
  await world.claim('too-large', { volumeName: 'disk-2' });
  assert.equal(
    await world.becomes('VolumeUnfit', 'too-large'),
    'claim too-large waits: it cannot have PersistentVolume disk-2: it has 5Gi, and the claim requests 20Gi; correct one of the two',
  );
  await world.claim('former', { volumeName: 'disk-2', ...size('5Gi') });
  await eventually('the claim is bound', async () => (await claimOf('former'))?.status?.phase === 'Bound' || undefined);
  await world.delete('former');
  await eventually('the claim is gone', async () => ((await claimOf('former')) ? undefined : true));
  assert.equal(
    await world.becomes('Retained', 'pv/disk-2'),
    'PersistentVolume disk-2 is kept on purpose: its claim shop/former was deleted, and its reclaim policy is Retain',
  );
  await world.claim('former', { volumeName: 'disk-2', ...size('5Gi') });
  assert.equal(
    await world.becomes('VolumeOfOtherClaim', 'former'),
    'claim former waits: it cannot have PersistentVolume disk-2: it belongs to claim shop/former, which was deleted; give it to this claim with kubectl moorage reattach',
  );
});

test('the volume is being created, its node does not answer, has no room, or no agent', async () => {
  await world.claim('slow');
  await world.pod('slow', ['slow'], on('mute'));
  await eventually('its volume is requested', async () => {
    const { items } = await admin.list(logicalVolumes, { fieldSelector: 'spec.nodeName=mute' });
    return items.length > 0;
  });
  const provisioner = world.sidecars.get('csi-provisioner');
  await provisioner?.pause(); // it would report that there is no answer
  assert.equal(
    await world.becomes('BeingCreated', 'pvc/slow'),
    'claim slow waits: its volume is being created on node mute',
  );
  await provisioner?.resume();
  assert.equal(
    await world.becomes('NodeSilent', 'pvc/slow'),
    'claim slow waits: node mute does not answer; start the node or its agent: the volume is created when it answers',
  );
  await world.claim('refused');
  await world.pod('refused', ['refused'], on('liar'));
  assert.match(
    await world.becomes('NoRoomOnNode', 'pvc/refused'),
    /^claim refused waits: .*1 GiB free, 20 GiB requested/,
  );
  await world.node('bare', { hasDriver: false, hasAgent: false });
  await world.claim('misled', {}, { annotations: { 'volume.kubernetes.io/selected-node': 'bare' } });
  assert.equal(
    await world.becomes('DriverMissing', 'misled'),
    'claim misled waits: Moorage does not run on node bare, which the scheduler has selected; start its agent there, or let the scheduler choose again',
  );
});

test('the request is refused, its class has topologies of another driver, or its source is not ready', async () => {
  await world.claim('shared', { accessModes: ['ReadWriteMany'] });
  await world.pod('shared', ['shared'], on('a'));
  const { sentence, remedy } = await eventually('the request is refused', async () => {
    const found = await world.why('pvc/shared');
    return found.code === 'RequestRefused' ? found : undefined;
  });
  assert.equal(
    sentence,
    'claim shared waits: a local volume cannot have the access mode ReadWriteMany; create the claim again with ReadWriteOnce or ReadWriteOncePod',
  );
  assert.match(remedy[0] ?? '', /^kubectl get pvc shared -n shop /);
  const matchLabelExpressions = [{ key: 'topology.kubernetes.io/zone', values: ['x'] }];
  await world.storageClass('zoned', { allowedTopologies: [{ matchLabelExpressions }] });
  await world.claim('zoned', { storageClassName: 'zoned' });
  assert.equal(
    await world.becomes('TopologyUnusable', 'zoned'),
    'claim zoned waits: StorageClass zoned cannot work: allowedTopologies has the key topology.kubernetes.io/zone, with which no volume could ever be created; list names of nodes under topology.topolvm.io/node, or leave it out and use the nodeSelector of the pods',
  );
  await world.claim('copy', { dataSource: { kind: 'PersistentVolumeClaim', name: 'unused' } });
  await world.pod('copy', ['copy'], on('a'));
  assert.match(
    await world.becomes('SourceNotReady', 'pvc/copy'),
    /^claim copy waits: its source, PersistentVolumeClaim unused, cannot be copied: the PVC DataSource unused must have a status of Bound/,
  );
});

test('a volume moves to another node', async () => {
  await world.volume('travels', 'a', size('1Gi'));
  const spec = { claimName: 'travels', targetNode: 'mute' };
  await admin.create(volumeMoves, { metadata: { name: 'journey', namespace }, spec });
  assert.match(
    await world.becomes('Moving', 'travels', 'its volume moves'),
    /^claim travels waits: its volume moves( from node a to node mute)? \(\w+\)$/,
  );
});

test('a volume cannot grow, and is removed', async () => {
  await world.volume('data', 'a', size('5Gi'));
  assert.equal(await saidOf('data'), 'claim data is fine: its volume has 5Gi on node a, and no pod uses it');
  const pvName = (await claimOf('data'))?.spec?.volumeName ?? '';
  const grow = { spec: { resources: { requests: { storage: '90Gi' } } } };
  await admin.patch(persistentVolumeClaims, 'data', { type: 'merge', body: grow }, { namespace });
  assert.match(
    await world.becomes('GrowthFailed', 'data'),
    /^claim data waits: it cannot grow to 90Gi on node a: .*requested.*; free space, or request less, but more than 5Gi$/,
  );
  await admin.delete(persistentVolumes, pvName);
  assert.equal(
    await world.becomes('UsedByClaim', `pv/${pvName}`),
    `PersistentVolume ${pvName} waits: it is being deleted, and claim shop/data uses it; it stays as long as the claim does`,
  );
  await world.stopAgent('a');
  await world.delete('data');
  assert.equal(
    await world.becomes('BeingRemoved', `pv/${pvName}`),
    `PersistentVolume ${pvName} waits: node a is removing its volume`,
  );
});

test('a StatefulSet waits for its quota, or for an old claim', async () => {
  await world.cluster.kubectl(
    '-n',
    namespace,
    'create',
    'quota',
    'storage',
    '--hard=tiny.storageclass.storage.k8s.io/requests.storage=1Gi',
  );
  await world.storageClass('tiny');
  const set = (name: string, storageClassName: string): StatefulSet => ({
    metadata: { name, namespace },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'main', image: 'pause' }] } },
      volumeClaimTemplates: [
        { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'], storageClassName, ...size('2Gi') } },
      ],
    },
  });
  await admin.create(statefulSets, set('poor', 'tiny'));
  assert.match(
    await world.becomes('QuotaExceeded', 'sts/poor'),
    /^StatefulSet poor waits: pod poor-0 does not exist: it or its claim cannot be created: exceeded quota: storage, .*; raise the quota/,
  );
  await world.claim('data-again-0', {}, { finalizers: ['example.org/backup'] });
  await world.delete('data-again-0');
  await admin.create(statefulSets, set('again', 'fast'));
  assert.equal(
    await world.becomes('ClaimBeingDeleted', 'again-0'),
    'pod again-0 waits: its old claim data-again-0 is being deleted, and has the finalizer example.org/backup, which another program removes; see whether that program runs',
  );
});

test('before it is applied, a file is checked against the cluster', async () => {
  const file = await world.file(`apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: sc-us-west-2b }
provisioner: topolvm.io
parameters: { zone: us-west-2b }
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: huge }
spec: { accessModes: [ReadWriteOnce], storageClassName: fast, resources: { requests: { storage: 1Ti } } }
---
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: db }
spec:
  template: { spec: { containers: [{ name: main, image: db, resources: { requests: { cpu: 1 } } }] } }
  volumeClaimTemplates:
    - metadata: { name: data }
      spec: { accessModes: [ReadWriteOnce], storageClassName: fast, resources: { requests: { storage: 1Gi } } }
`);
  const { items } = JSON.parse(await world.print('-f', file, '-ojson')) as {
    items: { code: string; sentence: string }[];
  };
  assert.deepEqual(
    items.map(({ code, sentence }) => [code, sentence]),
    [
      [
        'ZoneParameter',
        'StorageClass sc-us-west-2b cannot work: parameters.zone: a local volume has a node, not a zone; remove the parameter, and select the zone in the pods, with nodeSelector topology.kubernetes.io/zone: us-west-2b, because a volume is created on the node of its pod',
      ],
      ['NoNodeLeft', 'claim huge would wait: no node can have its volume; see the obstacle of each node'],
      ['Fine', 'StatefulSet db would not wait: no obstacle seen on a, liar and mute'],
    ],
  );
  assert.equal(await admin.get(statefulSets, 'db', { namespace }), undefined);
});

test('a provisioner that does nothing, and a user who may not read everything', async () => {
  assert.equal(
    await world.becomes('ProvisionerSilent', 'ignored'),
    'claim ignored waits: the provisioner idle.example.com does not act on it; see whether it runs',
  );
  const { code, sentence, unread } = await (await world.asReader('reader')).why('pvc/unused');
  assert.equal(code, 'BeingCreated');
  assert.match(sentence, /its StorageClass could not be read$/);
  assert.deepEqual(unread.toSorted(), [
    'csidrivers',
    'events',
    'logicalvolumes',
    'pods',
    'storageclasses',
    'volumemoves',
  ]);
});
