import { explainNode, explainPod, explainSnapshot, explainVolume } from '../explain.ts';
import { claim, meta, node, pod, volumeOf } from './objects.ts';
import {
  cluster,
  copy,
  deleted,
  type Example,
  event,
  going,
  growing,
  logicalVolume,
  move,
  ofClaim,
  ofPod,
  ofSet,
  onB,
  owned,
  released,
  removed,
  running,
  set,
  snapshot,
} from './situations.ts';

/** Growth, snapshots, moves, deletion and StatefulSets. */
export const otherExamples: readonly Example[] = [
  {
    code: 'GrowthFailed',
    sentence:
      'claim data waits: it cannot grow to 40Gi on node b: device class ssd has 5 GiB free, 20 GiB requested; free space, or request less, but more than 20Gi',
    explain: () => {
      const message = 'device class ssd has 5 GiB free, 20 GiB requested';
      const volume = logicalVolume(owned, 'b', {
        metadata: { annotations: { 'topolvm.io/resize-requested-at': 'now' } },
        status: { answeredResize: 'now', code: 8, message },
      });
      return ofClaim(growing(), { ...onB, logicalVolumes: [volume] });
    },
  },
  {
    code: 'GrowthNeedsPod',
    sentence: 'claim data waits: its volume has 40Gi, and its filesystem grows when a pod uses it',
    explain: () =>
      ofClaim(growing({ status: { conditions: [{ type: 'FileSystemResizePending', status: 'True' }] } }), onB),
  },
  {
    code: 'Growing',
    sentence: 'claim data waits: it grows from 20Gi to 40Gi',
    explain: () => ofClaim(growing(), onB),
  },
  {
    code: 'SnapshotFailed',
    sentence:
      'VolumeSnapshot before waits: it cannot be created: device class file takes no snapshots; use a thin pool',
    explain: () => {
      const message =
        'Failed to check and update snapshot content: rpc error: code = Unimplemented desc = device class file takes no snapshots; use a thin pool';
      return explainSnapshot(snapshot({ status: { readyToUse: false, error: { message } } }), cluster({}));
    },
  },
  {
    code: 'SnapshotControllerMissing',
    sentence:
      'VolumeSnapshot before waits: nothing acts on it: the cluster has no snapshot-controller, or it does not run; install it: it is not part of Moorage',
    explain: () => explainSnapshot(snapshot(), cluster({})),
  },
  {
    code: 'SnapshotBeingCreated',
    sentence: 'VolumeSnapshot before waits: it is being created',
    explain: () =>
      explainSnapshot(
        snapshot({ status: { boundVolumeSnapshotContentName: 'content-1', readyToUse: false } }),
        cluster({}),
      ),
  },
  {
    code: 'Moving',
    sentence: 'pod db-0 waits: its volume moves from node a to node b (Freezing, 50 % of 100 B)',
    explain: () => ofPod([owned], { ...onB, moves: [move] }),
  },
  {
    code: 'MoveCannotBegin',
    sentence:
      'claim data waits: its volume cannot move yet: node b: it has 3 GiB free, 20 GiB are needed; the move begins by itself when this is solved',
    explain: () => {
      const message = 'cannot begin yet: node b: it has 3 GiB free, 20 GiB are needed';
      return ofClaim(owned, { ...onB, moves: [{ ...move, status: { message } }] });
    },
  },
  {
    code: 'DataLeaving',
    sentence:
      'claim data waits: its operator was asked to leave node b at 2026-01-01T00:00:00Z: 1 of 2 shards is still here; claim and volume are deleted when the operator sets moorage.dev/left',
    explain: () => {
      const annotations = {
        'moorage.dev/delete': 'graceful',
        'moorage.dev/leave': 'b@2026-01-01T00:00:00Z',
        'moorage.dev/leave-message': '1 of 2 shards is still here',
      };
      return ofClaim({ ...owned, metadata: { ...owned.metadata, annotations } }, onB);
    },
  },
  {
    code: 'ReleaseOrdered',
    sentence:
      "claim data waits: its release was ordered with moorage.dev/delete: graceful, and Moorage's controller has not begun; see whether the controller runs",
    explain: () => {
      const annotations = { 'moorage.dev/delete': 'graceful' };
      return ofClaim({ ...owned, metadata: { ...owned.metadata, annotations } }, onB);
    },
  },
  {
    code: 'InvalidPolicy',
    sentence:
      'pod db-0 runs, but its claim data has an invalid policy: moorage.dev/on-drain is "mvoe", so its pod is not evicted when its node is drained; use one of wait, move, delegate, drop',
    explain: () => {
      const annotations = { 'moorage.dev/on-drain': 'mvoe' };
      const subject = { ...owned, metadata: { ...owned.metadata, annotations } };
      return explainPod(running('db-0'), cluster({ ...onB, claims: [subject] }));
    },
  },
  {
    code: 'UsedByPod',
    sentence: 'claim data waits: it is being deleted, and pod job names it, although it has completed; delete the pod',
    explain: () =>
      ofClaim(going('kubernetes.io/pvc-protection'), { pods: [running('job', { status: { phase: 'Succeeded' } })] }),
  },
  {
    code: 'UsedAsSource',
    sentence:
      'claim data waits: it is being deleted while claim copy copies it; it goes when the copy is complete or deleted',
    explain: () => {
      const subject = going('provisioner.storage.kubernetes.io/cloning-protection');
      const other = claim('copy', '20Gi', { spec: { dataSource: { kind: 'PersistentVolumeClaim', name: 'data' } } });
      return ofClaim(subject, { claims: [subject, other] });
    },
  },
  {
    code: 'UsedByClaim',
    sentence:
      'PersistentVolume pv-data waits: it is being deleted, and claim prod/data uses it; it stays as long as the claim does',
    explain: () => {
      const metadata = { deletionTimestamp: deleted, finalizers: ['kubernetes.io/pv-protection'] };
      return explainVolume(volumeOf(owned, 'b', { metadata }), cluster({}));
    },
  },
  {
    code: 'SnapshotInUse',
    sentence:
      'VolumeSnapshot before waits: it is being deleted, and claim data is being created from it; it goes when the claim is bound or deleted',
    explain: () => {
      const finalizers = ['snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection'];
      const subject = snapshot({ metadata: { deletionTimestamp: deleted, finalizers }, status: { readyToUse: true } });
      return explainSnapshot(subject, cluster({ claims: [copy('VolumeSnapshot', 'before')] }));
    },
  },
  {
    code: 'Retained',
    sentence:
      'PersistentVolume pv-data is kept on purpose: its claim prod/data was deleted, and its reclaim policy is Retain',
    explain: () => explainVolume(released({ spec: { persistentVolumeReclaimPolicy: 'Retain' } }), cluster({})),
  },
  {
    code: 'RemovalFailed',
    sentence:
      'PersistentVolume pv-data waits: node b cannot remove its volume: /dev/vg/x is open; end the process that uses it',
    explain: () => {
      const volume = removed({ status: { code: 9, message: '/dev/vg/x is open; end the process that uses it' } });
      return explainVolume(released(), cluster({ logicalVolumes: [volume] }));
    },
  },
  {
    code: 'RemovalWaitsForNode',
    sentence:
      'PersistentVolume pv-data waits: its volume is on node b, which does not exist; bring the node back, or see kubectl moorage orphans',
    explain: () => explainVolume(released(), cluster({ logicalVolumes: [removed()], nodes: [node('a', 1n)] })),
  },
  {
    code: 'BeingRemoved',
    sentence: 'PersistentVolume pv-data waits: node b is removing its volume',
    explain: () => explainVolume(released(), cluster({ logicalVolumes: [removed()] })),
  },
  {
    code: 'Erasing',
    sentence: 'PersistentVolume pv-data waits: its data is being erased on node b, 40 % done',
    explain: () => {
      const volumes = [{ name: 'id-data', deviceClass: 'ssd', size: '20Gi', donePercent: 40 }];
      const status = {
        nodeUID: 'uid-b',
        updatedAt: deleted,
        pools: [],
        erasures: { total: 1, volumes },
        orphans: { total: 0, volumes: [] },
        versions: {},
        features: {},
      };
      const storage = { metadata: meta('b'), status };
      return explainVolume(released(), cluster({ logicalVolumes: [removed()], nodeStorages: [storage] }));
    },
  },
  {
    code: 'NodeLeaving',
    sentence: 'node b waits: it is being deleted while the volume of claim prod/data moves',
    explain: () => {
      const metadata = { deletionTimestamp: deleted, finalizers: ['topolvm.cybozu.com/node'] };
      return explainNode(node('b', 1n, { metadata }), cluster({ moves: [move] }));
    },
  },
  {
    code: 'OtherFinalizer',
    sentence:
      'claim data waits: it is being deleted, and has the finalizer example.org/backup, which another program removes; see whether that program runs',
    explain: () => ofClaim(going('example.org/backup')),
  },
  {
    code: 'LowerOrdinal',
    sentence: 'pod db-1 waits: it is created after pod db-0 is ready; see kubectl moorage why pod/db-0',
    explain: () => ofSet('db-1', { pods: [pod('db-0')] }),
  },
  {
    code: 'StaleClaim',
    sentence:
      'pod db-0 waits: it is created after claim data-db-0 of its predecessor is gone, which Kubernetes deletes; wait, or give its data up',
    explain: () => {
      const ownerReferences = [{ apiVersion: 'v1', kind: 'Pod', name: 'db-0', uid: 'former' }];
      return ofSet('db-0', { claims: [claim('data-db-0', '20Gi', { metadata: { ownerReferences } })] });
    },
  },
  {
    code: 'NotCreated',
    sentence: 'pod db-0 waits: it cannot be created: pods "db-0" is forbidden: violates PodSecurity "restricted"',
    explain: () =>
      ofSet('db-0', {
        events: [event(set, 'FailedCreate', 'pods "db-0" is forbidden: violates PodSecurity "restricted"')],
      }),
  },
  {
    code: 'Fine',
    sentence: 'claim data is fine: its volume has 20Gi on node b, used by pod db-0',
    explain: () =>
      ofClaim(
        { ...owned, status: { phase: 'Bound', capacity: { storage: '20Gi' } } },
        { ...onB, pods: [running('db-0')] },
      ),
  },
];
