import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogicalVolume } from '../../api/logical-volume.ts';
import type { PersistentVolume, PersistentVolumeClaim, Stored } from '../../kube/resource.ts';
import { releasedFrom } from '../claim-ref.ts';
import { lastOwner, planReattach } from './reattach-plan.ts';

const stored = { uid: 'uid', resourceVersion: '7', creationTimestamp: '2026-01-01T00:00:00Z' };
const volume: Stored<PersistentVolume> = {
  metadata: { name: 'pvc-1', ...stored },
  spec: {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'moorage',
    volumeMode: 'Filesystem',
    persistentVolumeReclaimPolicy: 'Retain',
    csi: { driver: 'topolvm.io', volumeHandle: 'lv-1' },
    claimRef: { namespace: 'shop', name: 'data-db-1', uid: 'old', resourceVersion: '3' },
    nodeAffinity: {
      required: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'topology.topolvm.io/node', operator: 'In', values: ['a'] }] }],
      },
    },
  },
};
const target = { namespace: 'shop', name: 'data-db-1' };
const logicalVolume: Stored<LogicalVolume> = {
  metadata: { name: 'pvc-1', ...stored },
  spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
  status: { volumeID: 'lv-1' },
};
const claimOf = (spec: PersistentVolumeClaim['spec'], metadata: object = {}): Stored<PersistentVolumeClaim> => ({
  metadata: { ...target, ...stored, ...metadata },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'moorage', ...spec },
});
const nothing = { claim: undefined, owner: undefined };

test('a released volume is reserved for one claim before that claim is created', () => {
  const [reserve, create, ...others] = planReattach(target, { volume, ...nothing, logicalVolume });
  assert.deepEqual(reserve?.body, {
    metadata: { resourceVersion: '7' },
    spec: {
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        ...target,
        uid: null,
        resourceVersion: null,
        fieldPath: null,
      },
    },
  });
  assert.deepEqual(create?.object, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data-db-1', namespace: 'shop' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'moorage',
      volumeMode: 'Filesystem',
      resources: { requests: { storage: '1Gi' } },
      volumeName: 'pvc-1',
    },
  });
  assert.deepEqual(others, []);
});

test('a claim that waits for a volume is bound to it', () => {
  const writes = planReattach(target, { volume, claim: claimOf({}), owner: claimOf({}), logicalVolume });
  assert.deepEqual(
    writes.map(({ verb, resource }) => `${verb} ${resource.kind}`),
    ['patch PersistentVolume', 'patch PersistentVolumeClaim'],
  );
  assert.deepEqual(writes[1]?.body, { metadata: { resourceVersion: '7' }, spec: { volumeName: 'pvc-1' } });
});

test('a lost LogicalVolume is created first, and names the volume on the disk', () => {
  const [recreated] = planReattach(target, { volume, ...nothing, logicalVolume: undefined, deviceClass: 'thin' });
  assert.deepEqual(recreated?.object, {
    apiVersion: 'topolvm.io/v1',
    kind: 'LogicalVolume',
    metadata: {
      name: 'pvc-1',
      labels: { 'app.kubernetes.io/created-by': 'topolvm-controller' },
      annotations: { 'moorage.dev/adopt': 'lv-1', 'moorage.dev/claim': 'shop/data-db-1' },
      finalizers: ['topolvm.io/logicalvolume'],
    },
    spec: { name: 'pvc-1', nodeName: 'a', deviceClass: 'thin', size: '1Gi' },
  });
});

test('for a claim that is still bound, only the lost LogicalVolume is created', () => {
  const claim = claimOf({ volumeName: 'pvc-1' }, { uid: 'old' });
  const lost = { volume, claim, owner: claim, logicalVolume: undefined };
  assert.deepEqual(
    planReattach(target, lost).map(({ verb, resource }) => `${verb} ${resource.kind}`),
    ['create LogicalVolume'],
  );
  const leaving = claimOf({ volumeName: 'pvc-1' }, { uid: 'old', deletionTimestamp: '2026-01-02T00:00:00Z' });
  assert.throws(() => planReattach(target, { ...lost, claim: leaving, owner: leaving }), /wait until it is gone/);
});

test('a repeated command changes only what is left to do', () => {
  const { uid: _, resourceVersion: __, ...claimRef } = volume.spec?.claimRef ?? {};
  const reserved = { ...volume, spec: { ...volume.spec, claimRef } };
  const claim = claimOf({ volumeName: 'pvc-1' });
  assert.deepEqual(planReattach(target, { volume: reserved, claim, owner: undefined, logicalVolume }), []);
});

const { csi: _, ...specWithoutCsi } = volume.spec ?? {};
const staticVolume = (annotations: Record<string, string> = {}): Stored<PersistentVolume> => ({
  metadata: { ...volume.metadata, finalizers: ['moorage.dev/local-pv'], annotations },
  spec: { ...specWithoutCsi, local: { path: '/mnt/pv/pvc-1' } },
  status: { phase: 'Released' },
});
const autoRelease = { 'local-pv.k8s.portavita.net/autoRelease': 'true' };

test('a static volume is reattached without a LogicalVolume', () => {
  for (const annotations of [{}, { ...autoRelease, 'moorage.dev/on-release': 'keep' }]) {
    const objects = { volume: staticVolume(annotations), ...nothing, logicalVolume: undefined };
    assert.deepEqual(
      planReattach(target, objects).map(({ verb, resource }) => `${verb} ${resource.kind}`),
      ['patch PersistentVolume', 'create PersistentVolumeClaim'],
    );
  }
});

test('what cannot be reattached is refused with the reason', () => {
  const found = { volume, ...nothing, logicalVolume };
  const elsewhere = { ...volume, spec: { ...volume.spec, csi: { driver: 'ebs.csi.aws.com', volumeHandle: 'x' } } };
  const deletionTimestamp = '2026-01-02T00:00:00Z';
  const { nodeAffinity: _, ...withoutNode } = volume.spec ?? {};
  const rows: readonly [Parameters<typeof planReattach>[1], RegExp][] = [
    [{ ...found, volume: elsewhere }, /it is not a volume of Moorage/],
    [{ ...found, volume: { ...volume, metadata: { ...volume.metadata, deletionTimestamp } } }, /it is being deleted/],
    [
      { ...found, logicalVolume: { ...logicalVolume, metadata: { ...logicalVolume.metadata, deletionTimestamp } } },
      /LogicalVolume pvc-1 was deleted, so its node removes the volume/,
    ],
    [
      {
        ...found,
        volume: {
          ...volume,
          spec: { ...volume.spec, persistentVolumeReclaimPolicy: 'Delete' },
          status: { phase: 'Released' },
        },
      },
      /its reclaim policy is Delete, .* first run: kubectl patch pv pvc-1 -p/,
    ],
    [
      { volume: staticVolume(autoRelease), ...nothing, logicalVolume: undefined },
      /its node empties it for the next claim; .* first run: kubectl annotate pv pvc-1 \S+autoRelease=false --overwrite$/,
    ],
    [{ ...found, owner: claimOf({ volumeName: 'pvc-1' }) }, /bound to claim shop\/data-db-1, which still exists/],
    [
      { ...found, owner: claimOf({ volumeName: 'pvc-1' }, { deletionTimestamp }) },
      /being deleted; wait until it is gone/,
    ],
    [{ ...found, claim: claimOf({ volumeName: 'pvc-2' }) }, /already has volume pvc-2; choose another claim/],
    [{ ...found, claim: claimOf({ storageClassName: 'hdd' }) }, /has storage class hdd, the volume has moorage/],
    [{ ...found, claim: claimOf({ volumeMode: 'Block' }) }, /must have volumeMode Filesystem/],
    [{ ...found, claim: claimOf({ accessModes: ['ReadWriteMany'] }) }, /requests access mode ReadWriteMany/],
    [
      { ...found, claim: claimOf({ resources: { requests: { storage: '2Gi' } } }) },
      /requests 2Gi, the volume has 1Gi; request at most that/,
    ],
    [
      { volume: { ...volume, spec: withoutNode }, ...nothing, logicalVolume: undefined },
      /has no node affinity with topology.topolvm.io\/node/,
    ],
  ];
  for (const [objects, reason] of rows) {
    assert.throws(
      () => planReattach(target, objects),
      (error: Error) => {
        assert.match(error.message, reason);
        return true;
      },
    );
  }
});

test('without a target, a volume returns to the claim that it belonged to', () => {
  assert.deepEqual(lastOwner(volume), target);
  const { claimRef: _, ...spec } = volume.spec ?? {};
  assert.throws(() => lastOwner({ ...volume, spec }), /name one with --to <namespace>\/<claim>/);
  const imported = (claim?: typeof target) => ({
    ...volume,
    spec: { ...spec, claimRef: releasedFrom(claim, 'pvc-1') },
  });
  assert.deepEqual(lastOwner(imported(target)), target);
  assert.throws(() => lastOwner(imported()), /it belonged to no claim/);
});
