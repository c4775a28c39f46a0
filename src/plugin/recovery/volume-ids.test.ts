import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sameId, useOf, VolumeIds } from './volume-ids.ts';

const logicalVolume = (name: string, nodeName: string, more: object) => ({
  kind: 'LogicalVolume',
  metadata: { name, ...('adopt' in more && { annotations: { 'moorage.dev/adopt': String(more.adopt) } }) },
  spec: { name, nodeName, size: '1Gi' },
  ...more,
});
const persistentVolume = (driver: string, values?: string[]) => ({
  kind: 'PersistentVolume',
  metadata: { name: 'pv' },
  spec: {
    csi: { driver, volumeHandle: 'data' },
    ...(values && {
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: 'topology.topolvm.io/node', operator: 'In', values }] }],
        },
      },
    }),
  },
});

test('a volume ID is used by what a node has, will adopt, or a PersistentVolume refers to', () => {
  const ids = [
    logicalVolume('a', 'n1', { status: { volumeID: 'data' } }),
    logicalVolume('a', 'n1', { adopt: 'data' }),
    persistentVolume('topolvm.io', ['n1']),
  ].map((object) => useOf(object));
  assert.deepEqual(
    ids.map((use) => use && [use.id, use.nodeName]),
    [
      ['data', 'n1'],
      ['data', 'n1'],
      ['data', 'n1'],
    ],
  );
  assert.equal(useOf(persistentVolume('other', ['n1'])), undefined);
  assert.equal(useOf(persistentVolume('topolvm.io')), undefined);
  assert.equal(useOf({ kind: 'LogicalVolume', metadata: { name: 'a' } }), undefined);
});

test('an ID that another node uses is found, also after its own node used it', () => {
  const ids = new VolumeIds();
  const elsewhere = (nodeName: string) => {
    const use = ids.usedElsewhere('data', nodeName);
    return use && `${use.kind} ${use.name} of ${use.nodeName}`;
  };
  ids.add(useOf(logicalVolume('a', 'n1', { status: { volumeID: 'data' } })));
  assert.equal(elsewhere('n1'), undefined);
  assert.equal(elsewhere('n2'), 'LogicalVolume a of n1');
  assert.equal(ids.usedElsewhere('other', 'n2'), undefined);
  ids.add(useOf(logicalVolume('b', 'n2', { status: { volumeID: 'data' } })));
  assert.equal(elsewhere('n1'), 'LogicalVolume b of n2');
  ids.add(useOf(persistentVolume('topolvm.io', ['n1'])));
  assert.equal(elsewhere('n2'), 'PersistentVolume pv of n1');
});

test('two volumes of one name: one is renamed; one volume on moved disks: its old objects are removed', () => {
  const use = { id: 'data', nodeName: 'n1', kind: 'PersistentVolume', name: 'pvc-1' };
  assert.match(
    sameId(use, 'pvc-2'),
    /^PersistentVolume pvc-1 of node n1 has the same volume ID, .*; rename .* with lvrename first$/,
  );
  assert.match(
    sameId(use, 'pvc-1'),
    /: if its disks were moved here from node n1, first remove the old objects, .*: kubectl moorage purge pv\/pvc-1$/,
  );
  assert.match(
    sameId({ ...use, kind: 'LogicalVolume' }, 'pvc-1'),
    /allow-delete=true && kubectl delete logicalvolume pvc-1$/,
  );
});
