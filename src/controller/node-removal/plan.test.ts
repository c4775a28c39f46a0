import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import { type Claim, type NodeObjects, type OurVolume, ourVolume, planRemoval } from './plan.ts';

function logicalVolume(id: string): StoredLogicalVolume {
  return {
    metadata: { name: `pvc-${id}`, uid: id, resourceVersion: '1', creationTimestamp: '' },
    spec: { name: `pvc-${id}`, nodeName: 'a', size: '1Gi' },
    status: { volumeID: id },
  };
}

const persistent = (handle: string, fields: Partial<OurVolume> = {}): OurVolume => ({
  name: `pv-${handle}`,
  handle,
  isRetained: false,
  nodeNames: undefined,
  ...fields,
});
const claim = (name: string, fields: Partial<Claim>): Claim => ({
  namespace: 'shop',
  name,
  uid: name,
  storageClass: 'local',
  volumeName: '',
  selectedNode: '',
  ...fields,
});
const nothing: NodeObjects = {
  logicalVolumes: [],
  persistentVolumes: [],
  claims: [],
  ourStorageClasses: new Set(['local']),
  retainedSnapshots: new Set(),
};
const plan = (objects: Partial<NodeObjects>) => {
  const { claims, logicalVolumes } = planRemoval('a', { ...nothing, ...objects });
  return [claims.map(({ name }) => name), logicalVolumes.map(({ metadata }) => metadata.uid)];
};

test('claims are deleted whose volumes are on the node, by LogicalVolume or by node affinity', () => {
  const claims = [
    claim('here', { volumeName: 'pv-1' }),
    claim('half-gone', { volumeName: 'pv-2' }),
    claim('elsewhere', { volumeName: 'pv-3', selectedNode: 'a' }),
    claim('another-driver', { volumeName: 'pv-x', selectedNode: 'a' }),
  ];
  const persistentVolumes = [
    persistent('1'),
    persistent('2', { nodeNames: ['a'] }),
    persistent('3', { nodeNames: ['b'] }),
  ];
  assert.deepEqual(plan({ logicalVolumes: [logicalVolume('1')], persistentVolumes, claims }), [
    ['here', 'half-gone'],
    ['1'],
  ]);
});

test('a volume with node affinity stays, even if a LogicalVolume of the deleted node has its volume ID', () => {
  const stolen = { ...logicalVolume('own'), status: { volumeID: 'victim' } };
  const persistentVolumes = [
    persistent('victim', { nodeNames: ['b'] }),
    persistent('own', { nodeNames: ['a'] }),
    persistent('by-other-labels', { nodeNames: [] }),
  ];
  const claims = ['victim', 'own', 'by-other-labels'].map((name) => claim(name, { volumeName: `pv-${name}` }));
  const logicalVolumes = [stolen, logicalVolume('by-other-labels')];
  assert.deepEqual(plan({ logicalVolumes, persistentVolumes, claims })[0], ['own']);
});

test('a claim that waits for a volume on the node is deleted too, if the class is ours', () => {
  const claims = [
    claim('waiting', { selectedNode: 'a' }),
    claim('of-others', { selectedNode: 'a', storageClass: 'cloud' }),
    claim('waiting-elsewhere', { selectedNode: 'b' }),
    claim('not-scheduled', {}),
  ];
  assert.deepEqual(plan({ claims }), [['waiting'], []]);
});

test('a retained volume keeps its LogicalVolume, but its claim is deleted so that the pod can move', () => {
  const logicalVolumes = ['kept', 'snapshot', 'plain', 'plain-snapshot'].map(logicalVolume);
  const persistentVolumes = [persistent('kept', { isRetained: true }), persistent('plain')];
  const claims = [claim('db', { volumeName: 'pv-kept' })];
  assert.deepEqual(plan({ logicalVolumes, persistentVolumes, claims, retainedSnapshots: new Set(['snapshot']) }), [
    ['db'],
    ['plain', 'plain-snapshot'],
  ]);
});

test('a PersistentVolume shows its driver, its reclaim policy and its nodes', () => {
  const metadata = { name: 'pv-1', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const matchExpressions = [
    { key: 'topology.topolvm.io/node', operator: 'In', values: ['a'] },
    { key: 'zone', operator: 'In', values: ['z'] },
  ];
  const spec = {
    csi: { driver: 'topolvm.io', volumeHandle: '1' },
    persistentVolumeReclaimPolicy: 'Retain',
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
  };
  assert.deepEqual(ourVolume({ metadata, spec }), persistent('1', { isRetained: true, nodeNames: ['a'] }));
  assert.equal(ourVolume({ metadata, spec: { csi: spec.csi } })?.nodeNames, undefined);
  assert.equal(ourVolume({ metadata, spec: { ...spec, csi: { ...spec.csi, driver: 'other' } } }), undefined);
  assert.equal(ourVolume({ metadata, spec: {} }), undefined);
});
