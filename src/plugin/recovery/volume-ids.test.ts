import assert from 'node:assert/strict';
import { test } from 'node:test';
import { useOf, VolumeIds } from './volume-ids.ts';

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
  ids.add(useOf(logicalVolume('a', 'n1', { status: { volumeID: 'data' } })));
  assert.equal(ids.usedElsewhere('data', 'n1'), undefined);
  assert.equal(ids.usedElsewhere('data', 'n2'), 'LogicalVolume a of node n1');
  assert.equal(ids.usedElsewhere('other', 'n2'), undefined);
  ids.add(useOf(logicalVolume('b', 'n2', { status: { volumeID: 'data' } })));
  assert.equal(ids.usedElsewhere('data', 'n1'), 'LogicalVolume b of node n2');
});
