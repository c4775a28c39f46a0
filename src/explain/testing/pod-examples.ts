import { explainPod } from '../explain.ts';
import { bound, capacity, claim, node, pod, storageClass, volumeOf } from './objects.ts';
import {
  cluster,
  data,
  type Example,
  going,
  logicalVolume,
  nodeB,
  ofPod,
  onB,
  owned,
  running,
  selected,
  started,
  unscheduled,
} from './situations.ts';

const withCpu = (cpu: string) => ({ spec: { containers: [{ name: 'main', resources: { requests: { cpu } } }] } });

/** A pod that is not scheduled, or does not run. */
export const podExamples: readonly Example[] = [
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
      'pod db-0 waits: no node that it can run on has 20 GiB free: a has 12 GiB and b has 3 GiB; free space, add a disk, or request less',
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
      'pod db-0 waits: no node can run it: a (it has 30 GiB free, and the claims of the pod request 40 GiB together); free space, add a disk, or request less',
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
    explain: () => ofPod([selected], { nodes: nodeB({ spec: { unschedulable: true } }) }),
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
      'pod db-0 waits: its data is on node b: it has 1 cpu left, 2 requested; end other pods on b, or move its volume',
    explain: () => ofPod([owned], { ...onB, podsOfNodes: [running('other', withCpu('3'))] }, withCpu('2')),
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
      'pod db-0 waits: no node may have more volumes of another driver; add a node, or run fewer pods with such volumes',
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
    explain: () => {
      const waiting = pod('db-0', ['data'], { spec: { nodeName: 'b' } });
      return explainPod(waiting, cluster({ claims: [owned], pods: [waiting], ...onB, csiDrivers: [] }));
    },
  },
  {
    code: 'MountFailed',
    sentence: 'pod db-0 waits: its volume cannot be mounted on node b: the filesystem is damaged; run fsck',
    explain: () =>
      started(
        'MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = the filesystem is damaged; run fsck',
      ),
  },
  {
    code: 'VolumeLost',
    sentence:
      'pod db-0 waits: node b no longer has the volume of its claim data on its disks; bring the disks back, or give the data up and restore a backup',
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
];
