import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume } from '../../kube/resource.ts';
import { type DiskVolume, diskVolumeOf, foundList, planImport, volumeWithoutPv } from './import-plan.ts';
import type { Manifest } from './writes.ts';

const tagged = diskVolumeOf({
  name: 'lv-1',
  deviceClass: 'ssd',
  size: '1Gi',
  tags: ['moorage.dev/created', 'moorage.dev/volume=pvc-1', 'moorage.dev/claim=shop/db', 'moorage.dev/filesystem=xfs'],
});
const plain = diskVolumeOf({ name: 'Old_Data', deviceClass: 'ssd', size: '2Gi', tags: [] });
const options = {
  nodeName: 'a',
  named: [],
  storageClassFor: ({ deviceClass }: DiskVolume) => ({
    name: `moorage-${deviceClass}`,
    parameters: { 'moorage.dev/on-node-removal': 'wait', 'topolvm.io/device-class': deviceClass },
  }),
  withClaims: true,
};

const claimRefOf = (object: Manifest | undefined) => (object as PersistentVolume | undefined)?.spec?.claimRef;
const noClaim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', uid: '00000000-0000-0000-0000-000000000000' };

test('what tags say becomes a LogicalVolume that adopts, a retained PersistentVolume, and the claim', () => {
  assert.deepEqual(planImport([tagged, plain], options), [
    {
      apiVersion: 'topolvm.io/v1',
      kind: 'LogicalVolume',
      metadata: {
        name: 'pvc-1',
        labels: { 'app.kubernetes.io/created-by': 'topolvm-controller' },
        annotations: { 'moorage.dev/adopt': 'lv-1', 'moorage.dev/claim': 'shop/db' },
        finalizers: ['topolvm.io/logicalvolume'],
      },
      spec: { name: 'pvc-1', nodeName: 'a', deviceClass: 'ssd', size: '1Gi' },
    },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'pvc-1', annotations: { 'pv.kubernetes.io/provisioned-by': 'topolvm.io' } },
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOnce'],
        volumeMode: 'Filesystem',
        persistentVolumeReclaimPolicy: 'Retain',
        storageClassName: 'moorage-ssd',
        csi: {
          driver: 'topolvm.io',
          volumeHandle: 'lv-1',
          fsType: 'xfs',
          volumeAttributes: { 'moorage.dev/on-node-removal': 'wait' },
        },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: 'topology.topolvm.io/node', operator: 'In', values: ['a'] }] },
            ],
          },
        },
        claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'db' },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'db', namespace: 'shop' },
      spec: {
        accessModes: ['ReadWriteOnce'],
        volumeMode: 'Filesystem',
        storageClassName: 'moorage-ssd',
        resources: { requests: { storage: '1Gi' } },
        volumeName: 'pvc-1',
      },
    },
  ]);
});

test('a volume that nobody tagged is imported only if it is named', () => {
  assert.deepEqual(planImport([plain], options), []);
  const [object, volume, ...others] = planImport([plain], { ...options, named: ['Old_Data'] });
  assert.equal(object?.metadata.name, 'import-a-old-data');
  assert.deepEqual(object.metadata.annotations, { 'moorage.dev/adopt': 'Old_Data' });
  assert.deepEqual(claimRefOf(volume), { ...noClaim, namespace: 'default', name: 'import-a-old-data' });
  assert.deepEqual(others, [], 'nothing is known about its claim');
  assert.throws(
    () => planImport([plain], { ...options, named: ['other'] }),
    /--volume other: node a reports no volume/,
  );
});

test('without claims, no claim can have the PersistentVolume, which names its last one', () => {
  const [, volume, ...others] = planImport([tagged], { ...options, withClaims: false });
  assert.deepEqual(others, []);
  assert.deepEqual(claimRefOf(volume), { ...noClaim, namespace: 'shop', name: 'db' });
});

test('a volume that was used as a raw device stays one', () => {
  const raw = diskVolumeOf({
    name: 'lv-2',
    deviceClass: 'ssd',
    size: '1Gi',
    tags: ['moorage.dev/volume=v', 'moorage.dev/raw'],
  });
  const [, volume] = planImport([raw], options);
  assert.deepEqual(volume?.spec && 'volumeMode' in volume.spec && volume.spec.volumeMode, 'Block');
});

test('a snapshot is listed and not imported, so that it does not stop the import of the volumes', () => {
  const tags = ['moorage.dev/volume=snapshot-1', 'moorage.dev/filesystem=xfs'];
  const snapshot = diskVolumeOf({ name: 'lv-3', deviceClass: 'ssd', size: '1Gi', readOnly: true, tags });
  assert.deepEqual(planImport([snapshot], options), []);
  assert.match(foundList([snapshot], 1, options), /^lv-3 \(ssd, 1Gi\): not imported: it is a snapshot/);
  assert.throws(() => planImport([snapshot], { ...options, named: ['lv-3'] }), /it is a snapshot/);
});

test('a volume whose ID another node uses is listed and not imported, with what to do', () => {
  const tags = ['moorage.dev/volume=pvc-1'];
  const orphan = { name: 'data', deviceClass: 'ssd', size: '1Gi', tags };
  const used = diskVolumeOf(orphan, 'LogicalVolume pvc-9 has the same volume ID; rename one');
  assert.deepEqual(planImport([used], options), []);
  assert.match(
    foundList([used], 1, options),
    /^data \(ssd, 1Gi\): not imported: LogicalVolume pvc-9 has .*; rename one$/,
  );
  assert.throws(() => planImport([used], { ...options, named: ['data'] }), /--volume data: LogicalVolume pvc-9 has/);
});

test('a volume without a device class is listed and not imported, with the class that it needs', () => {
  const tags = ['moorage.dev/created', 'moorage.dev/volume=pvc-1'];
  const volume = diskVolumeOf({ name: 'data', volumeGroup: 'old', size: '1Gi', tags });
  assert.deepEqual(planImport([volume], options), []);
  assert.match(
    foundList([volume], 1, options),
    /^data \(1Gi\): not imported: its device class was removed .* add {name: old, volume-group: old} to the/,
  );
});

test('a volume that was never used and is about to be removed is not imported', () => {
  const metadata = { name: 'pvc-1', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  const object = {
    metadata: { ...metadata, annotations: { 'moorage.dev/never-used': 'true' } },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
    status: { volumeID: 'u' },
  };
  const tags = ['moorage.dev/volume=pvc-2', 'moorage.dev/unused', 'moorage.dev/retired'];
  const onDisk = diskVolumeOf({ name: 'lv', deviceClass: 'ssd', size: '1Gi', tags });
  const volumes = [volumeWithoutPv(object, 'ssd'), onDisk];
  assert.deepEqual(planImport(volumes, options), []);
  assert.match(
    foundList(volumes, 2, options),
    /^u \(ssd, 1Gi\): not imported: it was never used.*\nlv .*: not imported: it was/,
  );
});

test('a volume whose claim has a newer one is imported without a claim', () => {
  const older = { ...tagged, claimHas: 'pvc-2' };
  const manifests = planImport([older], options);
  assert.deepEqual(
    manifests.map(({ kind }) => kind),
    ['LogicalVolume', 'PersistentVolume'],
  );
  assert.deepEqual(claimRefOf(manifests[1]), { ...noClaim, namespace: 'default', name: 'pvc-1' });
  assert.match(foundList([older], 1, options), /claim shop\/db, which has volume pvc-2 now: imported without a claim/);
});

test('a volume that lost only its PersistentVolume keeps its LogicalVolume', () => {
  const metadata = { name: 'pvc-1', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  const object = {
    metadata: { ...metadata, annotations: { 'moorage.dev/claim': 'shop/db' } },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
    status: { volumeID: 'lv-1', currentSize: '1Gi' },
  };
  const volume = volumeWithoutPv(object, 'ssd');
  const [pv, ...others] = planImport([volume], { ...options, withClaims: false });
  assert.deepEqual([pv?.kind, pv?.metadata.name, others.length], ['PersistentVolume', 'pvc-1', 0]);
  assert.match(foundList([volume], 1, options), /it has no PersistentVolume: check fsType and volumeMode/);
});

test('an encrypted volume gets the Secret of its class, and is not imported without one', () => {
  const encrypted = diskVolumeOf({
    name: 'lv-1',
    deviceClass: 'ssd',
    size: '1Gi',
    tags: ['moorage.dev/volume=pvc-1', 'moorage.dev/claim=shop/db', 'moorage.dev/encrypted=luks2'],
  });
  const named = (name: string, namespace: string) => ({
    ...options,
    withClaims: false,
    storageClassFor: () => ({
      name: 'secret',
      parameters: {
        'csi.storage.k8s.io/node-stage-secret-name': name,
        'csi.storage.k8s.io/node-stage-secret-namespace': namespace,
        'csi.storage.k8s.io/node-publish-secret-name': name,
        'csi.storage.k8s.io/node-publish-secret-namespace': namespace,
      },
    }),
  });
  const filled = named('${pvc.name}-${pv.name}', '${pvc.namespace}');
  const [object, volume] = planImport([encrypted], filled);
  assert.equal(object?.metadata.annotations?.['moorage.dev/encryption'], 'luks2');
  const { csi } = (volume?.spec ?? {}) as { csi?: object };
  assert.deepEqual(csi, {
    driver: 'topolvm.io',
    volumeHandle: 'lv-1',
    volumeAttributes: { 'moorage.dev/encryption': 'luks2' },
    nodeStageSecretRef: { namespace: 'shop', name: 'db-pvc-1' },
    nodePublishSecretRef: { namespace: 'shop', name: 'db-pvc-1' },
  });
  for (const unknown of [options, named("${pvc.annotations['team/key']}", 'shop'), named('key', '')]) {
    assert.deepEqual(planImport([encrypted], unknown), []);
    assert.match(foundList([encrypted], 1, unknown), /not imported: it is encrypted; pass the --storage-class/);
    assert.throws(() => planImport([encrypted], { ...unknown, named: ['lv-1'] }), /--volume lv-1: it is encrypted/);
  }
});

test('a volume that is not encrypted does not become so by its class', () => {
  const parameters = { 'moorage.dev/encryption': 'luks2' };
  const [, volume] = planImport([tagged], { ...options, storageClassFor: () => ({ name: 'secret', parameters }) });
  const { csi } = (volume?.spec ?? {}) as { csi?: object };
  assert.deepEqual(csi, { driver: 'topolvm.io', volumeHandle: 'lv-1', fsType: 'xfs' });
});
