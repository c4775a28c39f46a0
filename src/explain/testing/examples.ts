import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import type { StoredVolumeMove } from '../../api/volume-move.ts';
import type { CsiDriver, CsiNode, Event, StatefulSet, Stored, VolumeSnapshot } from '../../kube/resource.ts';
import {
  explainClaim,
  explainMissingPod,
  explainNode,
  explainPod,
  explainSnapshot,
  explainVolume,
} from '../explain.ts';
import type { Explanation, ReasonCode } from '../explanation.ts';
import { type Claim, Known, type Objects } from '../known.ts';
import { bound, type Change, capacity, claim, meta, node, pod, storageClass, volumeOf } from './objects.ts';

/** One situation for each reason: the documentation lists the same sentences. */
export interface Example {
  readonly code: ReasonCode;
  readonly sentence: string;
  readonly explain: () => Explanation | undefined;
}

const selectedNode = 'volume.kubernetes.io/selected-node';
const deleted = '2026-01-02T00:00:00Z';

const driver: Stored<CsiDriver> = { metadata: meta('topolvm.io'), spec: { storageCapacity: true } };
const csiNode = (name: string): Stored<CsiNode> => ({
  metadata: meta(name),
  spec: { drivers: [{ name: 'topolvm.io', nodeID: name, topologyKeys: ['topology.topolvm.io/node'] }] },
});

function event(
  about: { readonly metadata: { readonly uid: string } },
  reason: string,
  note: string,
  change: object = {},
) {
  const object: Stored<Event> = {
    metadata: meta(`${reason}-${note.length}`),
    reason,
    note,
    eventTime: '2026-01-01T00:00:01Z',
    regarding: { uid: about.metadata.uid },
    ...change,
  };
  return object;
}

function logicalVolume(owner: Claim, nodeName: string, change: Change = {}): StoredLogicalVolume {
  const { volumeName } = owner.spec ?? {};
  return {
    metadata: { ...meta(volumeName ?? `pvc-${owner.metadata.uid}`), ...change.metadata },
    spec: { name: owner.metadata.name, nodeName, size: '20Gi', ...change.spec },
    status: volumeName ? { volumeID: `id-${owner.metadata.name}`, ...change.status } : { ...change.status },
  };
}

/** Everything is known: two nodes, one class, and nothing else. */
const everything: Objects = {
  claims: [],
  pods: [],
  podsOfNodes: [],
  persistentVolumes: [],
  storageClasses: [storageClass()],
  nodes: [node('a', 50n), node('b', 50n)],
  csiNodes: [csiNode('a'), csiNode('b')],
  csiDrivers: [driver],
  capacities: [capacity('a', '50Gi'), capacity('b', '50Gi')],
  logicalVolumes: [],
  nodeStorages: [],
  moves: [],
  events: [],
  statefulSets: [],
  snapshots: [],
};

const cluster = (objects: Objects) => new Known({ ...everything, ...objects });
const ofClaim = (subject: Claim, objects: Objects = {}) =>
  explainClaim(subject, cluster({ claims: [subject], ...objects }));

/** A pod that uses the claims and waits. */
const ofPod = (claims: readonly Claim[], objects: Objects = {}, change: Change = {}) => {
  const waiting = pod(
    'db-0',
    claims.map(({ metadata }) => metadata.name),
    change,
  );
  return explainPod(waiting, cluster({ claims, pods: [waiting], ...objects }));
};

const data = claim('data');
const selected = claim('data', '20Gi', { metadata: { annotations: { [selectedNode]: 'b' } } });
const owned = bound(data);
const onB = { persistentVolumes: [volumeOf(owned, 'b')], logicalVolumes: [logicalVolume(owned, 'b')] };
const provisioningFailed = (text: string) =>
  event(selected, 'ProvisioningFailed', `failed to provision volume with StorageClass "fast": ${text}`);
const copy = (kind: string, name: string, change: Change = {}) =>
  claim('data', '20Gi', { ...change, spec: { dataSource: { kind, name } } });
const going = (finalizer: string) =>
  claim('data', '20Gi', {
    metadata: { deletionTimestamp: deleted, finalizers: [finalizer] },
    status: { phase: 'Bound' },
  });
const running = (name: string, change: Change = {}) =>
  pod(name, ['data'], { spec: { nodeName: 'b', ...change.spec }, status: { phase: 'Running', ...change.status } });
const nodeB = (change: Change, gibi = 50n) => [node('a', 50n), node('b', gibi, change)];
const released = (change: Change = {}) =>
  volumeOf(owned, 'b', { ...change, spec: { ...change.spec }, status: { phase: 'Released' } });
const removed = (change: Change = {}) =>
  logicalVolume(owned, 'b', {
    ...change,
    metadata: { deletionTimestamp: deleted, finalizers: ['topolvm.io/logicalvolume'] },
  });
const snapshot = (change: Change = {}): Stored<VolumeSnapshot> => ({
  metadata: { ...meta('before'), namespace: 'prod', ...change.metadata },
  spec: { source: { persistentVolumeClaimName: 'data' } },
  ...(change.status && { status: change.status }),
});
const set: Stored<StatefulSet> = {
  metadata: { ...meta('db'), namespace: 'prod' },
  spec: {
    replicas: 2,
    serviceName: 'db',
    selector: {},
    template: {},
    volumeClaimTemplates: [{ metadata: { name: 'data' } }],
  },
};
const ofSet = (podName: string, objects: Objects) =>
  explainMissingPod(set, podName, cluster({ statefulSets: [set], ...objects }));
const growing = (change: Change = {}) =>
  claim('data', '40Gi', {
    spec: { volumeName: 'pv-data' },
    status: { phase: 'Bound', capacity: { storage: '20Gi' }, ...change.status },
  });
const started = (note: string, reason = 'FailedMount') => {
  const waiting = pod('db-0', ['data'], { spec: { nodeName: 'b' } });
  const objects = { claims: [owned], pods: [waiting], ...onB, events: [event(waiting, reason, note)] };
  return explainPod(waiting, cluster(objects));
};
const move: StoredVolumeMove = {
  metadata: { ...meta('data-1'), namespace: 'prod' },
  spec: { claimName: 'data' },
  status: { phase: 'Freezing', sourceNode: 'a', targetNode: 'b', target: { copiedBytes: 50, totalBytes: 100 } },
};

export const examples: readonly Example[] = [
  {
    code: 'NoStorageClass',
    sentence:
      'claim data waits: it names no StorageClass, and the cluster has no default; mark a StorageClass as the default: the claim then gets it',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { storageClassName: undefined } })),
  },
  {
    code: 'EmptyStorageClass',
    sentence:
      'claim data waits: its storageClassName is empty, so it gets only a PersistentVolume that somebody creates by hand, and none fits; create the claim again with a StorageClass',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { storageClassName: '' } })),
  },
  {
    code: 'StorageClassMissing',
    sentence:
      'claim data waits: there is no StorageClass fasst (did you mean fast?); create it, or create the claim again with another one',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { storageClassName: 'fasst' } })),
  },
  {
    code: 'ProvisionerUnknown',
    sentence:
      'claim data waits: StorageClass fast names the provisioner topolvm.com, which is not installed; install it, or use a StorageClass with topolvm.io',
    explain: () => ofClaim(data, { storageClasses: [storageClass('fast', { provisioner: 'topolvm.com' })] }),
  },
  {
    code: 'WaitsForPod',
    sentence: 'claim data waits: its volume is created when a pod uses it, and none does; this is normal',
    explain: () => ofClaim(data),
  },
  {
    code: 'SchedulerBypassed',
    sentence:
      'claim data waits: pod db-0 was created with nodeName b and bypassed the scheduler, so no volume is created for claim data; replace nodeName in the pod with nodeSelector kubernetes.io/hostname: b',
    explain: () => ofClaim(data, { pods: [pod('db-0', ['data'], { spec: { nodeName: 'b' } })] }),
  },
  {
    code: 'VolumeMissing',
    sentence:
      'claim data waits: it names PersistentVolume disk-1, which does not exist; create it, or create the claim again without volumeName',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { volumeName: 'disk-1' } })),
  },
  {
    code: 'VolumeUnfit',
    sentence:
      'claim data waits: it cannot have PersistentVolume pv-data: it has 20Gi, and the claim requests 30Gi; correct one of the two',
    explain: () => {
      const larger = claim('data', '30Gi', { spec: { volumeName: 'pv-data' } });
      const free = volumeOf(owned, 'b', { spec: { claimRef: undefined }, status: { phase: 'Available' } });
      return ofClaim(larger, { persistentVolumes: [free] });
    },
  },
  {
    code: 'VolumeOfOtherClaim',
    sentence:
      'claim data waits: it cannot have PersistentVolume pv-data: it belongs to claim prod/data, which was deleted; give it to this claim with kubectl moorage reattach',
    explain: () => {
      const again = claim('data', '20Gi', { metadata: { uid: 'uid-new' }, spec: { volumeName: 'pv-data' } });
      return ofClaim(again, { persistentVolumes: [released()] });
    },
  },
  {
    code: 'ClaimLost',
    sentence:
      "claim data waits: its PersistentVolume pv-data was deleted while the claim used it; restore the PersistentVolume with a claimRef that has this claim's uid, or delete the claim",
    explain: () => ofClaim({ ...owned, status: { phase: 'Lost' } }),
  },
  {
    code: 'QuotaExceeded',
    sentence:
      'pod db-0 waits: it or its claim cannot be created: exceeded quota: storage, requested: requests.storage=20Gi, used: requests.storage=90Gi, limited: requests.storage=100Gi; raise the quota, or delete claims that nobody needs',
    explain: () =>
      ofSet('db-0', {
        events: [
          event(
            set,
            'FailedCreate',
            'create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: storage, requested: requests.storage=20Gi, used: requests.storage=90Gi, limited: requests.storage=100Gi',
          ),
        ],
      }),
  },
  {
    code: 'ProvisionerSilent',
    sentence:
      "claim data waits: the provisioner topolvm.io does not act on it; see whether the pods of Moorage's controller run, and what their container csi-provisioner logs",
    explain: () =>
      ofClaim(selected, {
        events: [event(selected, 'ExternalProvisioning', 'Waiting for a volume to be created', { deprecatedCount: 5 })],
      }),
  },
  {
    code: 'BeingCreated',
    sentence: 'claim data waits: its volume is being created on node b',
    explain: () => ofClaim(selected, { logicalVolumes: [logicalVolume(selected, 'b')] }),
  },
  {
    code: 'BeingCopied',
    sentence: 'claim data waits: its data is being copied on node b',
    explain: () => ofClaim(selected, { logicalVolumes: [logicalVolume(selected, 'b', { spec: { source: 'pvc-1' } })] }),
  },
  {
    code: 'NoRoomOnNode',
    sentence:
      'claim data waits: device class "ssd" has 12 GiB free, 20 GiB requested; remove volumes, add a disk, or lower spare-gb',
    explain: () =>
      ofClaim(selected, {
        events: [
          provisioningFailed(
            'rpc error: code = ResourceExhausted desc = device class "ssd" has 12 GiB free, 20 GiB requested; remove volumes, add a disk, or lower spare-gb',
          ),
        ],
      }),
  },
  {
    code: 'RequestRefused',
    sentence:
      'claim data waits: it is refused: access mode ReadWriteMany is not possible for a local volume; use ReadWriteOnce',
    explain: () =>
      ofClaim(selected, {
        events: [
          provisioningFailed(
            'rpc error: code = InvalidArgument desc = access mode ReadWriteMany is not possible for a local volume; use ReadWriteOnce',
          ),
        ],
      }),
  },
  {
    code: 'NodeSilent',
    sentence:
      'claim data waits: node b does not answer; start the node or its agent: the volume is created when it answers',
    explain: () =>
      ofClaim(selected, {
        logicalVolumes: [logicalVolume(selected, 'b')],
        events: [provisioningFailed('rpc error: code = DeadlineExceeded desc = context deadline exceeded')],
      }),
  },
  {
    code: 'DriverMissing',
    sentence:
      'claim data waits: Moorage does not run on node b, which the scheduler has selected; start its agent there, or let the scheduler choose again',
    explain: () =>
      ofClaim(selected, {
        events: [provisioningFailed('error generating accessibility requirements: no topology key found on CSINode b')],
      }),
  },
  {
    code: 'TopologyUnusable',
    sentence:
      'claim data waits: StorageClass fast cannot work: its allowedTopologies has the key topology.kubernetes.io/zone, which volumes of Moorage cannot have; use the key topology.topolvm.io/node with names of nodes, or a nodeSelector in the pods',
    explain: () => {
      const matchLabelExpressions = [{ key: 'topology.kubernetes.io/zone', values: ['eu-1'] }];
      return ofClaim(data, {
        storageClasses: [storageClass('fast', { allowedTopologies: [{ matchLabelExpressions }] })],
      });
    },
  },
  {
    code: 'ZoneParameter',
    sentence:
      'claim data waits: StorageClass fast has the parameter zone, which is not allowed with WaitForFirstConsumer; remove it, and set nodeSelector topology.kubernetes.io/zone in the pods',
    explain: () =>
      ofClaim(selected, {
        events: [
          event(
            selected,
            'ProvisioningFailed',
            'Failed to provision volume with StorageClass "fast": zone[s] cannot be specified in StorageClass if VolumeBindingMode is set to WaitForFirstConsumer. Please specify allowedTopologies in StorageClass for constraining zones',
          ),
        ],
      }),
  },
  {
    code: 'SourceNotReady',
    sentence:
      'claim data waits: its source, VolumeSnapshot before, cannot be copied: snapshot before is not Ready; the copy begins when the source is ready',
    explain: () => {
      const subject = copy('VolumeSnapshot', 'before', selected);
      const note =
        'error getting handle for DataSource Type VolumeSnapshot by Name before: snapshot before is not Ready';
      return ofClaim(subject, { events: [provisioningFailed(note)] });
    },
  },
  {
    code: 'SourceElsewhere',
    sentence:
      'claim data waits: its source, PersistentVolumeClaim old, is on node a, and its pod cannot run there; a copy is on the node of its source',
    explain: () => {
      const note =
        'rpc error: code = ResourceExhausted desc = volume x is on node a, so its copy cannot be on b; run its pod on a';
      return ofClaim(copy('PersistentVolumeClaim', 'old', selected), { events: [provisioningFailed(note)] });
    },
  },
  {
    code: 'SchedulingGated',
    sentence: 'pod db-0 waits: it has the scheduling gate example.org/licence, which another program removes',
    explain: () => ofPod([], {}, { spec: { schedulingGates: [{ name: 'example.org/licence' }] } }),
  },
  {
    code: 'ClaimMissing',
    sentence: 'pod db-0 waits: its claim data does not exist; create it, or correct the name in the pod',
    explain: () => ofPod([data], { claims: [] }),
  },
  {
    code: 'ClaimBeingDeleted',
    sentence: 'pod db-0 waits: its claim data is being deleted, and pod old uses it; delete the pod',
    explain: () => ofPod([going('kubernetes.io/pvc-protection')], { pods: [running('old')] }),
  },
  {
    code: 'NoRoom',
    sentence:
      'pod db-0 waits: no node that it can run on has 20 GiB free: a has 12 GiB and b has 3 GiB; remove volumes, add a disk, or request less',
    explain: () => ofPod([data], { nodes: [node('a', 12n), node('b', 3n)] }),
  },
  {
    code: 'RoomUnknown',
    sentence:
      'pod db-0 waits: no node can run it: a (it does not report any free space) and b (it does not report any free space); start the agent of Moorage on a',
    explain: () => {
      const silent = { metadata: { annotations: {} } };
      return ofPod([data], { nodes: [node('a', 0n, silent), node('b', 0n, silent)] });
    },
  },
  {
    code: 'RoomOutdated',
    sentence:
      "pod db-0 waits: no node can run it: a (the scheduler counts 1 GiB free, but it has 50 GiB; 20 GiB requested); see whether Moorage's controller runs, which publishes the free space",
    explain: () => ofPod([data], { nodes: [node('a', 50n)], capacities: [capacity('a', '1Gi')] }),
  },
  {
    code: 'NoRoomTogether',
    sentence:
      'pod db-0 waits: no node can run it: a (it has 30 GiB free, and the claims of the pod request 40 GiB together); remove volumes, add a disk, or request less',
    explain: () => ofPod([data, claim('log')], { nodes: [node('a', 30n)] }),
  },
  {
    code: 'DeviceClassMissing',
    sentence:
      'pod db-0 waits: no node that it can run on has device class nvme; use a StorageClass with a device class that nodes have',
    explain: () =>
      ofPod([data], { storageClasses: [storageClass('fast', { parameters: { 'topolvm.io/device-class': 'nvme' } })] }),
  },
  {
    code: 'PinnedToNode',
    sentence: 'pod db-0 waits: its claim data is assigned to node b, which is cordoned; run kubectl uncordon b',
    explain: () => placement([selected], { nodes: nodeB({ spec: { unschedulable: true } }) }),
  },
  {
    code: 'NodeGone',
    sentence: 'pod db-0 waits: its data is on node b, which no longer exists; bring the node back, or give the data up',
    explain: () => ofPod([owned], { ...onB, nodes: [node('a', 50n)] }),
  },
  {
    code: 'NodeCordoned',
    sentence: 'pod db-0 waits: its data is on node b, which is cordoned; run kubectl uncordon b',
    explain: () => ofPod([owned], { ...onB, nodes: nodeB({ spec: { unschedulable: true } }) }),
  },
  {
    code: 'NodeNotReady',
    sentence: 'pod db-0 waits: its data is on node b: its kubelet does not answer; start node b',
    explain: () =>
      ofPod([owned], {
        ...onB,
        nodes: nodeB({ spec: { taints: [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }] } }),
      }),
  },
  {
    code: 'NodeTainted',
    sentence:
      'pod db-0 waits: its data is on node b: it has the taint disk=old:NoSchedule; remove the taint, or give the pod a toleration',
    explain: () =>
      ofPod([owned], {
        ...onB,
        nodes: nodeB({ spec: { taints: [{ key: 'disk', value: 'old', effect: 'NoSchedule' }] } }),
      }),
  },
  {
    code: 'NodeExcluded',
    sentence:
      'pod db-0 waits: its data is on node b: it does not have the label kubernetes.io/hostname=a; change the pod so that it can run on b, or move its volume',
    explain: () => ofPod([owned], onB, { spec: { nodeSelector: { 'kubernetes.io/hostname': 'a' } } }),
  },
  {
    code: 'NodeFull',
    sentence:
      'pod db-0 waits: its data is on node b: it has 4 cpu left, 5 requested; end other pods on b, or move its volume',
    explain: () =>
      ofPod([owned], onB, { spec: { containers: [{ name: 'main', resources: { requests: { cpu: '5' } } }] } }),
  },
  {
    code: 'VolumesApart',
    sentence:
      'pod db-0 waits: its data is on different nodes, that of claim data on node b and that of claim log on node a; move a volume to the node of the other',
    explain: () => {
      const log = bound(claim('log'));
      return ofPod([owned, log], { persistentVolumes: [volumeOf(owned, 'b'), volumeOf(log, 'a')] });
    },
  },
  {
    code: 'VolumeInUse',
    sentence:
      'pod db-0 waits: only one pod at a time may use its claim data, and pod old does; end that pod, or use the access mode ReadWriteOnce',
    explain: () => {
      const single = bound(claim('data', '20Gi', { spec: { accessModes: ['ReadWriteOncePod'] } }));
      return ofPod([single], { ...onB, pods: [running('old')] });
    },
  },
  {
    code: 'VolumeLimit',
    sentence:
      'pod db-0 waits: no node may have more volumes of another driver; add a node, or remove pods with such volumes',
    explain: () => ofPod([owned], onB, unscheduled('0/2 nodes are available: 2 node(s) exceed max volume count.')),
  },
  {
    code: 'ZoneLabel',
    sentence:
      'pod db-0 waits: a PersistentVolume of its claims has a zone label that no node has; remove the label topology.kubernetes.io/zone',
    explain: () => ofPod([owned], onB, unscheduled('0/2 nodes are available: 2 node(s) had no available volume zone.')),
  },
  {
    code: 'NoNodeLeft',
    sentence: 'pod db-0 waits: no node can run it: a (it is cordoned) and b (it is not ready); remove an obstacle',
    explain: () => {
      const taints = [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }];
      return ofPod([data], {
        nodes: [node('a', 50n, { spec: { unschedulable: true } }), node('b', 50n, { spec: { taints } })],
      });
    },
  },
  {
    code: 'NotScheduled',
    sentence:
      "pod db-0 waits: the scheduler says: 0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.",
    explain: () =>
      ofPod(
        [data],
        {},
        unscheduled("0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints."),
      ),
  },
  {
    code: 'DriverNotRegistered',
    sentence: 'pod db-0 waits: Moorage does not run on node b; start its agent there',
    explain: () =>
      started(
        'MountVolume.MountDevice failed for volume "pv-data" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name topolvm.io not found in the list of registered CSI drivers',
      ),
  },
  {
    code: 'CsiDriverMissing',
    sentence:
      "pod db-0 waits: the CSIDriver topolvm.io does not exist, so Kubernetes waits for an attacher that Moorage does not have; create it again from Moorage's chart",
    explain: () =>
      started(
        'AttachVolume.Attach failed for volume "pv-data" : timed out waiting for external-attacher of topolvm.io CSI driver to attach volume id-data',
        'FailedAttachVolume',
      ),
  },
  {
    code: 'MountFailed',
    sentence:
      'pod db-0 waits: its volume cannot be mounted on node b: rpc error: code = Internal desc = the filesystem is damaged; run fsck',
    explain: () =>
      started(
        'MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = the filesystem is damaged; run fsck',
      ),
  },
  {
    code: 'VolumeLost',
    sentence:
      'pod db-0 waits: node b no longer has the volume of its claim data on its disks; bring the disks back, or delete the claim and restore a backup',
    explain: () => {
      const waiting = pod('db-0', ['data'], { spec: { nodeName: 'b' } });
      const lost = logicalVolume(owned, 'b', { status: { missingFrom: 'uid-b' } });
      return explainPod(waiting, cluster({ claims: [owned], pods: [waiting], ...onB, logicalVolumes: [lost] }));
    },
  },
  {
    code: 'PermissionsChanging',
    sentence:
      'pod db-0 waits: the kubelet changes the owner of every file of its volume; fsGroupChangePolicy: OnRootMismatch in the securityContext of the pod avoids this',
    explain: () => started('Setting volume ownership for volume is taking longer', 'VolumePermissionChangeInProgress'),
  },
  {
    code: 'Starting',
    sentence: 'pod db-0 waits: container main does not start: ImagePullBackOff (its claims have their volumes)',
    explain: () => {
      const containerStatuses = [{ name: 'main', state: { waiting: { reason: 'ImagePullBackOff' } } }];
      const waiting = pod('db-0', ['data'], { spec: { nodeName: 'b' }, status: { containerStatuses } });
      return explainPod(waiting, cluster({ claims: [owned], pods: [waiting], ...onB }));
    },
  },
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
    sentence: 'PersistentVolume pv-data waits: it is being deleted, and claim prod/data uses it; delete the claim',
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
      'pod db-0 waits: it is created after claim data-db-0 of its predecessor is gone, which Kubernetes deletes; wait, or delete that claim',
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

/** Only what the scheduler says is left. */
function unscheduled(message: string): Change {
  const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }];
  return { status: { phase: 'Pending', conditions } };
}

/** The volume of a claim that is assigned to a node is not requested yet. */
function placement(claims: readonly Claim[], objects: Objects) {
  return ofPod(claims, objects);
}
