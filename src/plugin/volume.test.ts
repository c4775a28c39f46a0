import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverName } from '../api/names.ts';
import { type VolumeObjects, volumeDetails, volumeScreen } from './volume.ts';

const nowMs = Date.parse('2026-01-10T00:00:00Z');
const plain = { columns: 80, colours: false };
const meta = (name: string, namespace?: string) => ({
  name,
  uid: `uid-${name}`,
  resourceVersion: '1',
  creationTimestamp: '2026-01-09T23:00:00Z',
  ...(namespace && { namespace }),
});

const bound: VolumeObjects = {
  volume: {
    metadata: meta('pvc-1'),
    spec: { name: 'pvc-1', nodeName: 'node-a', size: '10Gi' },
    status: { volumeID: 'id-1', currentSize: '12Gi' },
  },
  persistentVolume: {
    metadata: meta('pvc-1'),
    spec: {
      csi: { driver: driverName, volumeHandle: 'id-1' },
      claimRef: { namespace: 'db', name: 'data-0' },
      persistentVolumeReclaimPolicy: 'Delete',
      storageClassName: 'fast',
      volumeMode: 'Block',
    },
    status: { phase: 'Bound' },
  },
  claim: {
    metadata: meta('data-0', 'db'),
    spec: { resources: { requests: { storage: '10Gi' } } },
    status: { phase: 'Bound' },
  },
  pods: [
    {
      metadata: meta('postgres-0', 'db'),
      spec: { containers: [], volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-0' } }] },
      status: { phase: 'Running' },
    },
  ],
  events: [
    {
      metadata: meta('event', 'db'),
      eventTime: '2026-01-09T23:30:00.000000Z',
      type: 'Warning',
      reason: 'GrowthFailed',
      regarding: { kind: 'PersistentVolumeClaim', name: 'data-0' },
      note: 'no\nspace',
    },
  ],
};

test('a bound volume is shown with all its objects and events', () => {
  assert.equal(
    volumeScreen(volumeDetails(bound), nowMs, plain),
    `Claim:            db/data-0 (Bound)
Pods:             postgres-0 (Running)
Health:           Healthy
Node:             node-a
Device class:     (default)
StorageClass:     fast
Size:             12 GiB
Requested:        10 GiB
Filesystem:       none (block device)
PersistentVolume: pvc-1 (Delete)
LogicalVolume:    pvc-1
On disk:          id-1
Created:          2026-01-09T23:00:00Z (60m ago)

Events, oldest first:
AGE  TYPE     REASON        OBJECT
30m  Warning  GrowthFailed  PersistentVolumeClaim/data-0
     no space`,
  );
  assert.match(
    volumeScreen(volumeDetails(bound), nowMs, { columns: undefined, colours: false }),
    /OBJECT +MESSAGE\n30m .*PersistentVolumeClaim\/data-0 {2}no space$/,
  );
});

test('a claim that waits is shown without a volume', () => {
  const { claim } = bound;
  const waiting = { volume: undefined, persistentVolume: undefined, claim, pods: [], events: [] };
  const screen = volumeScreen(volumeDetails(waiting), nowMs, plain);
  assert.match(
    screen,
    /^Claim: +db\/data-0 .*\nPods: +none\nHealth: +Pending: it has no volume yet\nRequested: +10 GiB\n\nNo events\.$/,
  );
});

test('a volume whose claim was deleted still names it', () => {
  const { health, claim, pods } = volumeDetails({
    ...bound,
    claim: undefined,
    pods: [],
    persistentVolume: bound.persistentVolume && { ...bound.persistentVolume, status: { phase: 'Released' } },
  });
  assert.deepEqual([health, claim, pods], ['Released', 'data-0', []]);
});

test('a volume whose operator was asked to leave shows how far it is', () => {
  const annotations = {
    'moorage.dev/leave': 'node-a@2026-01-09T23:00:00Z',
    'moorage.dev/leave-message': '3 of 12 shards left',
  };
  const claim = { ...bound.claim, metadata: { ...meta('data-0', 'db'), annotations } };
  assert.match(
    volumeScreen(volumeDetails({ ...bound, claim }), nowMs, { columns: undefined, colours: false }),
    /^Leaving: {10}its operator was asked to leave node node-a at 2026-01-09T23:00:00Z: 3 of 12 shards left$/m,
  );
});
