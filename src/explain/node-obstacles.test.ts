import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod, Stored } from '../kube/resource.ts';
import { type NeededVolume, type NodeFacts, nodeObstacles } from './node-obstacles.ts';
import { bound, capacity, claim, node, pod, storageClass, volumeOf } from './testing/objects.ts';

const fast = storageClass();
const data = claim('data');
const needsData: readonly NeededVolume[] = [{ claim: data, storageClass: fast }];
const drivers = ['topolvm.io'];

/** What is said about node b, as `kind: text`. */
function seen(volumes: readonly NeededVolume[], facts: Partial<NodeFacts> = {}, wanting: Stored<Pod> = pod('db-0')) {
  const all = nodeObstacles(wanting, volumes, { node: node('b', 50n), drivers, ...facts });
  return all.map(({ kind, text }) => `${kind}: ${text}`);
}

test('nothing is said about a node that has room, and nothing about what is unknown', () => {
  assert.deepEqual(seen(needsData, { capacities: [capacity('b', '50Gi')], pods: [] }), []);
  assert.deepEqual(seen([]), []);
  assert.deepEqual(seen([{ claim: data }], { node: node('b', 0n), drivers: [] }), []);
  const elsewhere = bound(data);
  assert.deepEqual(seen([{ claim: elsewhere }]), []);
});

test('a cordoned node, one that is not ready, and taints are named once', () => {
  const taints = [
    { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' },
    { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' },
    { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' },
    { key: 'disk', value: 'old', effect: 'NoSchedule' },
  ];
  assert.deepEqual(seen([], { node: node('b', 1n, { spec: { unschedulable: true, taints } }) }), [
    'cordoned: it is cordoned',
    'not-ready: it is not ready',
    'taint: it has the taint disk=old:NoSchedule',
  ]);
});

test("a node without the pod's labels or affinity is refused", () => {
  const terms = [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['x'] }] }];
  const spec = {
    nodeSelector: { disk: 'nvme' },
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
  };
  assert.deepEqual(seen([], {}, pod('db-0', [], { spec })), [
    'label: it does not have the label disk=nvme',
    'affinity: it does not match the required node affinity zone In (x)',
  ]);
});

test('CPU, memory and other requests count against what is allocatable and not taken', () => {
  const requests = (cpu: string, memory: string) => ({ resources: { requests: { cpu, memory } } });
  const running = (name: string, cpu: string, memory: string, change: object = {}) =>
    pod(name, [], { spec: { nodeName: 'b', containers: [requests(cpu, memory)] }, ...change });
  const wanting = (spec: object) => pod('db-0', [], { spec: { containers: [], ...spec } });
  const full = [running('x', '3', '1Gi'), running('y', '500m', '6Gi')];
  const rows: readonly (readonly [object, readonly Stored<Pod>[], readonly string[]])[] = [
    [{ containers: [requests('500m', '1Gi')] }, full, []],
    [{ containers: [requests('501m', '1Gi')] }, full, ['resources: it has 500m cpu left, 501m requested']],
    [
      { containers: [requests('1', '2Gi')] },
      full,
      ['resources: it has 500m cpu left, 1 requested', 'resources: it has 1024 MiB memory left, 2048 MiB requested'],
    ],
    // Pods that are over, and the pod itself, take nothing.
    [{ containers: [requests('4', '1Gi')] }, [running('x', '3', '1Gi', { status: { phase: 'Succeeded' } })], []],
    [{ containers: [requests('4', '1Gi')] }, [running('db-0', '3', '1Gi')], []],
    // An init container that ends needs no room beside the containers, one that stays does.
    [{ initContainers: [requests('4', '1Gi')], containers: [requests('4', '1Gi')] }, [], []],
    [
      { initContainers: [{ ...requests('1', '1Gi'), restartPolicy: 'Always' }], containers: [requests('4', '1Gi')] },
      [],
      ['too-large: it has 4 cpu left, 5 requested'],
    ],
    [
      { containers: [requests('1', '1Gi')], overhead: { cpu: '3500m' } },
      [],
      ['too-large: it has 4 cpu left, 4500m requested'],
    ],
    [{ containers: [{ resources: { limits: { cpu: '5' } } }] }, [], ['too-large: it has 4 cpu left, 5 requested']],
    [
      { resources: { requests: { cpu: '5' } }, containers: [requests('1', '0')] },
      [],
      ['too-large: it has 4 cpu left, 5 requested'],
    ],
    [
      { containers: [{ resources: { limits: { 'gpu.io/one': '1' } } }] },
      [],
      ['too-large: it has 0 gpu.io/one left, 1 requested'],
    ],
    [{ containers: [{ resources: { limits: { 'topolvm.io/capacity': '1' } } }] }, [], []],
  ];
  for (const [spec, pods, expected] of rows) assert.deepEqual(seen([], { pods }, wanting(spec)), expected);
  const crowded = node('b', 1n, { status: { allocatable: { pods: '2' } } });
  assert.deepEqual(seen([], { node: crowded, pods: full }, wanting({})), [
    'resources: it has 0 pods left, 1 requested',
  ]);
});

test('room that is reserved counts for other pods, unless their priority is higher', () => {
  const using = (cpu: string, more: object = {}) => ({
    spec: { containers: [{ resources: { requests: { cpu } } }], ...more },
  });
  const placeholder = pod('reserve-1', [], {
    metadata: { namespace: 'moorage-system', annotations: { 'moorage.dev/claim': 'prod/data' } },
    ...using('3'),
  });
  const facts = { pods: [], reserving: [placeholder] };
  assert.deepEqual(seen([], facts, pod('rival', [], using('1'))), []);
  assert.deepEqual(seen([], facts, pod('rival', [], using('2'))), [
    'resources: it has 1 cpu left, 2 requested; room is reserved there for the pod of claim prod/data',
  ]);
  assert.deepEqual(seen([], facts, pod('rival', [], using('2', { priority: 1 }))), []);
  assert.deepEqual(seen([], facts, pod('db-0', ['data'], using('3'))), []);
});

test('a bound volume and a claim with a selected node belong to one node', () => {
  const owned = bound(data);
  assert.deepEqual(seen([{ claim: owned, persistentVolume: volumeOf(owned, 'b') }]), []);
  assert.deepEqual(seen([{ claim: owned, persistentVolume: volumeOf(owned, 'a') }]), [
    'volume-elsewhere: the data of claim data is on node a',
  ]);
  const annotations = { 'volume.kubernetes.io/selected-node': 'a' };
  assert.deepEqual(seen([{ claim: claim('data', '1Gi', { metadata: { annotations } }), storageClass: fast }]), [
    'selected-elsewhere: claim data is assigned to node a',
  ]);
});

test('a new volume needs the driver, the device class, and room that the scheduler knows', () => {
  const hdd = storageClass('slow', { parameters: { 'topolvm.io/device-class': 'hdd' } });
  const here = { key: 'topology.topolvm.io/node', values: ['a'] };
  const limited = storageClass('fast', { allowedTopologies: [{ matchLabelExpressions: [here] }] });
  const silent = node('b', 0n, { metadata: { annotations: {} } });
  const leaving = node('b', 50n, { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
  const capacities = [capacity('b', '3Gi'), capacity('a', '99Gi'), capacity('b', '99Gi', 'slow')];
  const rows: readonly (readonly [NeededVolume, Partial<NodeFacts>, string])[] = [
    [{ claim: data, storageClass: limited }, {}, 'topology: allowedTopologies of StorageClass fast leaves it out'],
    [
      { claim: data, storageClass: fast },
      { drivers: ['other'] },
      'no-driver: Moorage does not run there: its CSINode does not list the driver topolvm.io',
    ],
    [{ claim: data, storageClass: fast }, { node: leaving }, 'leaving: it is being deleted'],
    [{ claim: data, storageClass: hdd }, {}, 'no-device-class: it has no device class hdd'],
    [{ claim: data, storageClass: fast }, { node: silent }, 'room-unknown: it does not report any free space'],
    [{ claim: data, storageClass: fast }, { node: node('b', 12n) }, 'no-room: it has 12 GiB free, 20 GiB requested'],
    [
      { claim: data, storageClass: fast },
      { capacities: [] },
      'room-unpublished: the scheduler does not know its free space: no CSIStorageCapacity of class fast',
    ],
    [
      { claim: data, storageClass: fast },
      { capacities },
      'room-outdated: the scheduler counts 3 GiB free, but it has 50 GiB; 20 GiB requested',
    ],
  ];
  for (const [volume, facts, expected] of rows) assert.deepEqual(seen([volume], facts), [expected]);
});

test('claims that fit one by one may not fit together', () => {
  const both = [
    { claim: data, storageClass: fast },
    { claim: claim('log', '10Gi'), storageClass: fast },
  ];
  assert.deepEqual(seen(both, { node: node('b', 30n) }), []);
  assert.deepEqual(seen(both, { node: node('b', 20n) }), [
    'no-room-together: it has 20 GiB free, and the claims of the pod request 30 GiB together',
  ]);
});

test('a PersistentVolume that is not bound can be used instead of a new one', () => {
  const handmade = storageClass('disks', { provisioner: 'kubernetes.io/no-provisioner' });
  const wanting = claim('data', '20Gi', { spec: { storageClassName: 'disks' } });
  const free = { claimRef: undefined };
  const volume = (nodeName: string, spec: object = {}) =>
    volumeOf(wanting, nodeName, { spec: { ...free, ...spec }, status: { phase: 'Available' } });
  const missing = 'no-volume: it has no available PersistentVolume of class disks for claim data';
  const needed = [{ claim: wanting, storageClass: handmade }];
  assert.deepEqual(seen(needed), []); // unknown
  assert.deepEqual(seen(needed, { unbound: [volume('b')] }), []);
  assert.deepEqual(seen(needed, { unbound: [volume('a')] }), [missing]);
  const misfits = [
    { capacity: { storage: '19Gi' } },
    { volumeMode: 'Block' },
    { accessModes: ['ReadOnlyMany'] },
    { storageClassName: 'other' },
    { claimRef: { namespace: 'prod', name: 'other' } },
    { claimRef: { namespace: 'prod', name: 'data', uid: 'former' } },
  ];
  for (const spec of misfits) assert.deepEqual(seen(needed, { unbound: [volume('b', spec)] }), [missing]);
  const small = { node: node('b', 1n), unbound: [volumeOf(data, 'b', { spec: free, status: { phase: 'Available' } })] };
  assert.deepEqual(seen(needsData, small), []);
});
