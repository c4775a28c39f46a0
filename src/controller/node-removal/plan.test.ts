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
  uid: `uid-${handle}`,
  handle,
  isRetained: false,
  nodeNames: undefined,
  policy: undefined,
  ...fields,
});
const claim = (name: string, fields: Partial<Claim>): Claim => ({
  namespace: 'shop',
  name,
  uid: name,
  resourceVersion: '1',
  isDeleting: false,
  storageClass: 'local',
  volumeName: '',
  selectedNode: '',
  policy: undefined,
  ...fields,
});
const nothing: NodeObjects = {
  logicalVolumes: [],
  persistentVolumes: [],
  claims: [],
  ourStorageClasses: new Map([['local', undefined]]),
  retainedSnapshots: new Set(),
};
const plan = (objects: Partial<NodeObjects>) => {
  const { released, dropped } = planRemoval('a', { ...nothing, ...objects });
  return [released.map(({ claim }) => claim.name), dropped.map(({ metadata }) => metadata.uid)];
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

const fates = (objects: Partial<NodeObjects>) => {
  const { released, waiting, dropped, kept } = planRemoval('a', { ...nothing, ...objects });
  return {
    dropped: released.filter(({ policy }) => policy === 'drop').map(({ claim }) => claim.name),
    kept: released.filter(({ policy }) => policy === 'keep').map(({ claim, volume }) => [claim.name, volume?.name]),
    waiting: waiting.map(({ claim, invalid }) => (invalid === undefined ? claim.name : `${claim.name}: ${invalid}`)),
    logicalVolumes: [dropped.map(({ metadata }) => metadata.uid), kept.map(({ metadata }) => metadata.uid)],
  };
};

test('the annotation of a claim decides, then what its class said, and otherwise the volume is given up', () => {
  const words = [
    ['1', undefined, undefined],
    ['2', 'keep', undefined],
    ['3', 'wait', undefined],
    ['4', undefined, 'keep'],
    ['5', undefined, 'wait'],
    ['6', 'drop', 'wait'],
    ['7', 'wait', 'drop'],
  ] as const;
  const objects = {
    logicalVolumes: words.map(([id]) => logicalVolume(id)),
    persistentVolumes: words.map(([id, , policy]) => persistent(id, { nodeNames: ['a'], policy })),
    claims: words.map(([id, policy]) => claim(id, { volumeName: `pv-${id}`, policy })),
  };
  assert.deepEqual(fates(objects), {
    dropped: ['1', '6'],
    kept: [
      ['2', 'pv-2'],
      ['4', 'pv-4'],
    ],
    waiting: ['3', '5', '7'],
    logicalVolumes: [
      ['1', '6'],
      ['2', '3', '4', '5', '7'],
    ],
  });
});

test('a word that is no policy loses nothing', () => {
  for (const word of ['', 'Drop', 'delete', 'drop ']) {
    const objects = {
      logicalVolumes: [logicalVolume('1')],
      persistentVolumes: [persistent('1', { nodeNames: ['a'], policy: 'drop' })],
      claims: [claim('db', { volumeName: 'pv-1', policy: word })],
    };
    const expected = { dropped: [], kept: [], waiting: [`db: ${word}`], logicalVolumes: [[], ['1']] };
    assert.deepEqual(fates(objects), expected);
  }
});

test('a claim without a volume follows its annotation or its class, and there is nothing to keep', () => {
  const ourStorageClasses = new Map([
    ['local', undefined],
    ['careful', 'wait'],
  ]);
  const here = { selectedNode: 'a' };
  const claims = [
    claim('plain', here),
    claim('careful', { ...here, storageClass: 'careful' }),
    claim('decided', { ...here, storageClass: 'careful', policy: 'drop' }),
    claim('kept', { ...here, policy: 'keep' }),
  ];
  assert.deepEqual(fates({ claims, ourStorageClasses }), {
    dropped: ['plain', 'decided'],
    kept: [['kept', undefined]],
    waiting: ['careful'],
    logicalVolumes: [[], []],
  });
});

test('snapshots stay with the volume that they were taken of', () => {
  const snapshotOf = (id: string, source: string): StoredLogicalVolume => {
    const plain = logicalVolume(id);
    const annotations = { 'moorage.dev/content-source': `volume/${source}` };
    return {
      ...plain,
      metadata: { ...plain.metadata, annotations },
      spec: { ...plain.spec, source: `pvc-${source}`, accessType: 'ro' },
    };
  };
  const objects = {
    logicalVolumes: [logicalVolume('1'), snapshotOf('s1', '1'), logicalVolume('2'), snapshotOf('s2', '2')],
    persistentVolumes: ['1', '2'].map((id) => persistent(id, { nodeNames: ['a'] })),
    claims: [claim('1', { volumeName: 'pv-1', policy: 'wait' }), claim('2', { volumeName: 'pv-2' })],
  };
  assert.deepEqual(fates(objects).logicalVolumes, [
    ['2', 's2'],
    ['1', 's1'],
  ]);
});

test('a PersistentVolume shows its driver, its reclaim policy, its nodes and the policy of its class', () => {
  const metadata = { name: 'pv-1', uid: 'uid-1', resourceVersion: '1', creationTimestamp: '' };
  const matchExpressions = [
    { key: 'topology.topolvm.io/node', operator: 'In', values: ['a'] },
    { key: 'zone', operator: 'In', values: ['z'] },
  ];
  const spec = {
    csi: {
      driver: 'topolvm.io',
      volumeHandle: '1',
      volumeAttributes: { 'moorage.dev/on-node-removal': 'keep' },
    },
    persistentVolumeReclaimPolicy: 'Retain',
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
  };
  assert.deepEqual(
    ourVolume({ metadata, spec }),
    persistent('1', { isRetained: true, nodeNames: ['a'], policy: 'keep' }),
  );
  assert.equal(ourVolume({ metadata, spec: { csi: spec.csi } })?.nodeNames, undefined);
  assert.equal(ourVolume({ metadata, spec: { ...spec, csi: { ...spec.csi, driver: 'other' } } }), undefined);
  assert.equal(ourVolume({ metadata, spec: {} }), undefined);
});

test('static volumes on the node stay, and their claims follow the same policies', () => {
  const onNode = (id: string, fields: Partial<OurVolume> = {}) =>
    persistent(id, { handle: undefined, nodeNames: ['a'], ...fields });
  const persistentVolumes = [
    onNode('plain'),
    onNode('careful', { policy: 'wait' }),
    onNode('kept', { policy: 'keep' }),
    onNode('elsewhere', { nodeNames: ['b'] }),
    persistent('csi', { nodeNames: ['a'] }),
  ];
  const claims = ['plain', 'careful', 'kept', 'elsewhere'].map((name) => claim(name, { volumeName: `pv-${name}` }));
  assert.deepEqual(fates({ persistentVolumes, claims }), {
    dropped: ['plain'],
    kept: [['kept', 'pv-kept']],
    waiting: ['careful'],
    logicalVolumes: [[], []],
  });
  const { staticVolumes } = planRemoval('a', { ...nothing, persistentVolumes, claims });
  assert.deepEqual(
    staticVolumes.map(({ name }) => name),
    ['pv-plain', 'pv-careful', 'pv-kept'],
  );
});

test('a static volume shows its node and its policies', () => {
  const metadata = {
    name: 'pv-1',
    uid: 'uid-1',
    resourceVersion: '1',
    creationTimestamp: '',
    finalizers: ['moorage.dev/local-pv'],
  };
  const node = { 'local-pv.k8s.portavita.net/node': 'a' };
  const one = persistent('1', { handle: undefined, nodeNames: ['a'] });
  const spec = { local: { path: '/mnt/pv/pv-1' } };
  assert.deepEqual(ourVolume({ metadata: { ...metadata, annotations: node }, spec }), one);
  const annotations = {
    ...node,
    'moorage.dev/on-node-removal': 'keep',
    'local-pv.k8s.portavita.net/autoRelease': 'false',
  };
  assert.deepEqual(ourVolume({ metadata: { ...metadata, annotations }, spec }), {
    ...one,
    policy: 'keep',
    isRetained: true,
  });
  assert.equal(ourVolume({ metadata: { ...metadata, finalizers: [], annotations }, spec }), undefined);
});
