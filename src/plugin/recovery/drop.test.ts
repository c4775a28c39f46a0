import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverName, tombstone, topologyKey } from '../../api/names.ts';
import type { Node, PersistentVolume, PersistentVolumeClaim, Pod, Stored } from '../../kube/resource.ts';
import { type Droppable, isSettled, lossText } from './drop.ts';

const now = Date.parse('2026-01-11T00:00:00Z');
const common = { uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };

function claim(metadata: object = {}, phase = 'Bound'): Stored<PersistentVolumeClaim> {
  return { metadata: { ...common, name: 'data-db-0', namespace: 'prod', ...metadata }, status: { phase } };
}

function volume(reclaim: string): Stored<PersistentVolume> {
  const affinity = { key: topologyKey, operator: 'In', values: ['node-a'] };
  return {
    metadata: { ...common, name: 'pv' },
    spec: {
      capacity: { storage: '2Gi' },
      csi: { driver: driverName, volumeHandle: 'id' },
      persistentVolumeReclaimPolicy: reclaim,
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [affinity] }] } },
    },
  };
}

function node(ready: string): Stored<Node> {
  return { metadata: { ...common, name: 'node-a' }, status: { conditions: [{ type: 'Ready', status: ready }] } };
}

const pod: Stored<Pod> = {
  metadata: { ...common, name: 'db-0' },
  status: { phase: 'Running', startTime: '2026-01-08T00:00:00Z' },
};

const found: Droppable = {
  claim: claim(),
  volume: volume('Delete'),
  object: {
    metadata: { ...common, name: 'pv' },
    spec: { name: 'pv', nodeName: 'node-a', size: '2Gi' },
    status: { volumeID: 'id', currentSize: '3Gi' },
  },
  nodeName: 'node-a',
  node: node('True'),
  pods: [pod],
  isRecreated: true,
};

test('what will be lost is named: node, size, age and use', () => {
  const text = (change: Partial<Droppable>) => lossText({ ...found, ...change }, now).split('\n');
  assert.deepEqual(text({}), [
    'claim prod/data-db-0: volume pv, 3 GiB, created 10d ago, on node node-a',
    '  used by pod db-0 (Running) for 3d',
    '  its data will be deleted',
  ]);
  assert.deepEqual(text({ node: node('Unknown'), object: undefined, pods: [], isRecreated: false }), [
    'claim prod/data-db-0: volume pv, 2 GiB, created 10d ago, on node node-a, which is not Ready',
    '  used by no pod',
    '  what is left of its data stays on the disks of node-a',
    '  nothing creates this claim again: create it yourself afterwards',
  ]);
  assert.match(text({ node: undefined })[0] ?? '', /, which is not in the cluster$/);
  assert.equal(text({ volume: volume('Retain') })[2], '  PersistentVolume pv is retained');
});

test('it is over when the claim has a new volume, is gone for good, or the order was withdrawn', () => {
  const ordered = { annotations: { [tombstone.annotations[0]]: 'force' }, resourceVersion: '2' };
  const rows: readonly [title: string, claim: Stored<PersistentVolumeClaim> | undefined, expected: boolean][] = [
    ['seen before the order', claim(), false],
    ['ordered', claim(ordered), false],
    ['being deleted', claim({ resourceVersion: '3', deletionTimestamp: '2026-01-10T00:00:00Z' }), false],
    ['withdrawn', claim({ resourceVersion: '3' }), true],
    ['gone, and created again soon', undefined, false],
    ['created again', claim({ uid: 'new' }, 'Pending'), false],
    ['bound again', claim({ uid: 'new' }), true],
  ];
  for (const [title, each, expected] of rows) assert.equal(isSettled(each, found), expected, title);
  assert.equal(isSettled(undefined, { ...found, isRecreated: false }), true, 'gone for good');
});
