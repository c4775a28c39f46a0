import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { contentSourceAnnotation, driverName, topologyKey } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import {
  csiDrivers,
  csiStorageCapacities,
  events,
  microTime,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  storageClasses,
} from '../../src/kube/resource.ts';
import { type Entry, entry, nodeEntries, type SampleVolume, volumeEntries } from './objects.ts';

const versions = { moorage: '0.1.0', kernel: '6.12.48', lvm: '2.03.22', e2fsprogs: '1.47.1', xfsprogs: '6.10.1' };
const healthy = { health: 'Healthy' } as const;
const ssd = {
  ...healthy,
  deviceClass: 'ssd',
  type: 'thick',
  volumeGroup: 'vg-nvme',
  size: '3726Gi',
  spare: '64Gi',
} as const;
const thin = {
  ...healthy,
  deviceClass: 'thin',
  type: 'thin',
  volumeGroup: 'vg-nvme2',
  thinPool: 'pool',
  size: '1862Gi',
} as const;
const hdd = {
  ...healthy,
  deviceClass: 'hdd',
  type: 'thick',
  volumeGroup: 'vg-hdd',
  size: '14901Gi',
  spare: '128Gi',
} as const;

/** A small cluster in which a few things happen, for tests and pictures of the page. */
export function harbour(nowMs: number): readonly Entry[] {
  const ago = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString();
  const days = (count: number) => ago(count * 1440);
  const condition = (type: string, at: string) => ({ type, status: 'True', lastTransitionTime: at });
  const volume = (namespace: string, set: string, i: number, node: string, rest: Partial<SampleVolume> = {}) =>
    volumeEntries({
      ...{ namespace, claim: `data-${set}-${i}`, node, deviceClass: 'ssd', size: '200Gi', storageClass: 'fast' },
      ...{ createdAt: days(41 - i), pod: `${set}-${i}` },
      podStatus: {
        phase: 'Running',
        conditions: [condition('PodScheduled', days(41 - i)), condition('PodReadyToStartContainers', days(40.999 - i))],
      },
      ...rest,
    });
  const pending = (namespace: string, name: string, storageClassName: string, minutes: number, size: string) =>
    entry(persistentVolumeClaims, {
      metadata: { name, namespace, creationTimestamp: ago(minutes) },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName, resources: { requests: { storage: size } } },
      status: { phase: 'Pending' },
    });
  const event = (
    name: string,
    minutes: number,
    uid: string,
    claim: string,
    reason: string,
    note: string,
    type = 'Normal',
  ) =>
    entry(events, {
      metadata: { name, namespace: 'shop', creationTimestamp: ago(minutes) },
      eventTime: microTime(nowMs - minutes * 60_000),
      ...{
        type,
        reason,
        note,
        action: 'Working',
        reportingController: 'topolvm.io/controller',
        reportingInstance: 'moorage',
      },
      regarding: { kind: 'PersistentVolumeClaim', namespace: 'shop', name: claim, uid },
    });
  const move = (claim: string, minutes: number, from: string, to: string, status: object) =>
    entry(volumeMoves, {
      metadata: { name: `${claim}-x7k2p`, namespace: 'shop', creationTimestamp: ago(minutes) },
      spec: { claimName: claim },
      status: { sourceNode: from, targetNode: to, size: '200Gi', startedAt: ago(minutes), ...status },
    });
  const classOf = (name: string, deviceClass: string) =>
    entry(storageClasses, {
      ...{ metadata: { name }, provisioner: driverName, volumeBindingMode: 'WaitForFirstConsumer' },
      parameters: { 'topolvm.io/device-class': deviceClass },
    });
  const orders = 'persistentvolumeclaims-shop/data-orders-0';
  const nothing = { total: 0, volumes: [] };
  return [
    ...nodeEntries(
      'harbor-1',
      [
        { ...ssd, used: '1690Gi', free: '1972Gi', volumes: 8 },
        { ...thin, used: '712Gi', free: '1150Gi', volumes: 11, thin: { dataPercent: 38, metadataPercent: 12 } },
        { ...hdd, used: '9822Gi', free: '4951Gi', volumes: 4 },
      ],
      { versions },
    ),
    ...nodeEntries(
      'harbor-2',
      [
        { ...ssd, used: '3581Gi', free: '81Gi', volumes: 17 },
        { ...thin, used: '1546Gi', free: '316Gi', volumes: 23, thin: { dataPercent: 83, metadataPercent: 41 } },
        { ...hdd, used: '6020Gi', free: '8753Gi', volumes: 2 },
      ],
      { versions },
    ),
    ...nodeEntries(
      'harbor-3',
      [
        { ...ssd, used: '1204Gi', free: '2458Gi', volumes: 6 },
        { ...thin, used: '402Gi', free: '1460Gi', volumes: 7, thin: { dataPercent: 21, metadataPercent: 91 } },
      ],
      {
        versions,
        erasures: { total: 1, volumes: [{ name: 'lv-7f3c11', deviceClass: 'ssd', size: '100Gi', donePercent: 58 }] },
        orphans: {
          total: 1,
          volumes: [{ name: 'lv-restored-2024', deviceClass: 'ssd', size: '80Gi', tags: [], since: days(3) }],
        },
      },
    ),
    ...nodeEntries(
      'harbor-4',
      [
        { ...ssd, used: '2210Gi', free: '1452Gi', volumes: 9 },
        {
          ...{ deviceClass: 'hdd', type: 'thick', volumeGroup: 'vg-hdd', health: 'Unavailable', volumes: 0 },
          reason: 'volume group vg-hdd is missing disk /dev/sdc; bring it back, or see docs/configuration.md',
        },
      ],
      { versions, health: 'Unavailable', erasures: nothing },
    ),
    entry(csiDrivers, { metadata: { name: driverName }, spec: { storageCapacity: true } }),
    ...[1972, 81, 2458, 1452].map((free, i) =>
      entry(csiStorageCapacities, {
        metadata: { name: `fast-${i + 1}`, namespace: 'ci' },
        storageClassName: 'fast',
        nodeTopology: { matchLabels: { [topologyKey]: `harbor-${i + 1}` } },
        ...{ capacity: `${free}Gi`, maximumVolumeSize: `${free}Gi` },
      }),
    ),
    classOf('fast', 'ssd'),
    classOf('bulk', 'hdd'),
    ...[0, 1, 2].flatMap((i) => volume('shop', 'orders', i, `harbor-${i + 1}`, { size: '400Gi' })),
    ...[0, 1, 2].flatMap((i) =>
      volume('shop', 'sessions', i, `harbor-${i + 1}`, { deviceClass: 'thin', size: '20Gi' }),
    ),
    ...[0, 1, 2, 3].flatMap((i) =>
      volume('search', 'index', i, `harbor-${i + 1}`, { size: '250Gi', createdAt: days(12) }),
    ),
    ...[0, 1].flatMap((i) => volume('metrics', 'prometheus', i, `harbor-${i * 2 + 1}`, { size: '600Gi' })),
    ...[0, 1, 2].flatMap((i) => volume('queue', 'kafka', i, `harbor-${i + 1}`, { size: '300Gi', createdAt: days(90) })),
    ...volume('archive', 'reports', 0, 'harbor-1', { deviceClass: 'hdd', size: '2Ti', storageClass: 'bulk' }),
    ...volume('archive', 'reports', 1, 'harbor-2', {
      ...{ deviceClass: 'hdd', size: '2Ti', storageClass: 'bulk' },
      status: { missingFrom: 'harbor-2' },
    }),
    ...volumeEntries({
      ...{ namespace: 'ci', claim: 'cache', node: 'harbor-4', deviceClass: 'ssd', size: '150Gi', storageClass: 'fast' },
      createdAt: days(2),
    }),
    entry(logicalVolumes, {
      metadata: {
        ...{ name: 'snapshot-orders', creationTimestamp: ago(26) },
        annotations: { [contentSourceAnnotation]: 'volume/id-pvc-shop-data-orders-0' },
      },
      spec: {
        ...{ name: 'snapshot-orders', nodeName: 'harbor-1', size: '400Gi', deviceClass: 'ssd' },
        ...{ source: 'pvc-shop-data-orders-0', accessType: 'ro' },
      },
      status: { volumeID: 'id-snapshot-orders', currentSize: '400Gi' },
    }),
    entry(persistentVolumes, {
      metadata: { name: 'pvc-legacy', creationTimestamp: days(60) },
      spec: {
        ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: '120Gi' }, storageClassName: 'fast' },
        csi: { driver: driverName, volumeHandle: 'id-pvc-legacy' },
        ...{ claimRef: { namespace: 'shop', name: 'data-legacy-0' }, persistentVolumeReclaimPolicy: 'Retain' },
      },
      status: { phase: 'Released', lastPhaseTransitionTime: days(4) },
    }),
    entry(logicalVolumes, {
      metadata: { name: 'pvc-legacy', creationTimestamp: days(60) },
      spec: { name: 'pvc-legacy', nodeName: 'harbor-4', size: '120Gi', deviceClass: 'ssd' },
      status: { volumeID: 'id-pvc-legacy', currentSize: '120Gi' },
    }),
    pending('shop', 'data-orders-3', 'fast', 7, '4Ti'),
    pending('search', 'data-index-4', 'fsat', 31, '250Gi'),
    pending('ci', 'scratch', 'fast', 95, '50Gi'),
    entry(pods, {
      metadata: { name: 'orders-3', namespace: 'shop', creationTimestamp: ago(7) },
      spec: {
        containers: [{ name: 'main', image: 'none' }],
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-orders-3' } }],
      },
      status: {
        phase: 'Pending',
        conditions: [
          {
            ...{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', lastTransitionTime: ago(7) },
            message: '0/4 nodes are available: 4 node(s) did not have enough free storage.',
          },
        ],
      },
    }),
    move('data-orders-1', 4, 'harbor-2', 'harbor-3', {
      ...{ phase: 'Copying', message: 'copying to harbor-3 while its pods run', size: '400Gi' },
      target: { round: 1, copiedBytes: 271_000_000_000, totalBytes: 429_496_729_600 },
    }),
    move('data-sessions-1', 2, 'harbor-2', 'harbor-1', {
      ...{ phase: 'Freezing', message: 'the last changes are copied', size: '20Gi', stoppedAt: ago(0.1) },
      target: { round: 3, copiedBytes: 18_000_000, totalBytes: 41_000_000 },
    }),
    move('data-orders-0', 180, 'harbor-4', 'harbor-1', {
      ...{ phase: 'Done', message: 'the volume is on node harbor-1', size: '400Gi', completedAt: ago(121) },
      ...{ stoppedAt: ago(121.3), openedAt: ago(121) },
    }),
    event(
      'orders-grown',
      38,
      orders,
      'data-orders-0',
      'VolumeGrown',
      'grew the volume on node harbor-1 from 300Gi to 400Gi',
    ),
    event(
      'orders-resized',
      37,
      orders,
      'data-orders-0',
      'FileSystemResizeSuccessful',
      'MountVolume.NodeExpandVolume succeeded',
    ),
    event(
      'orders-slow',
      12,
      orders,
      'data-orders-0',
      'MoveWaiting',
      'node harbor-3 already receives two volumes',
      'Warning',
    ),
  ];
}
