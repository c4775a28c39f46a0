import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manifestOf, savedVolume, switchedTo } from './persistent-volume-switch.ts';
import { moveOfTest, volumeOfTest } from './testing/move-of-test.ts';

function savedOf(volume: ReturnType<typeof volumeOfTest>) {
  const saved = savedVolume(moveOfTest('Committed', { manifest: manifestOf(volume) }));
  assert.ok(saved);
  return saved;
}

test('the new PersistentVolume has everything of the old one but handle, node and what the server sets', () => {
  const old = volumeOfTest({ metadata: { labels: { app: 'db' }, generation: 3, selfLink: '/x' } });
  const { status: _, metadata, ...rest } = old;
  const wanted = switchedTo(savedOf(old), { handle: 'new', nodeName: 'b' });
  const expression = { key: 'topology.topolvm.io/node', operator: 'In', values: ['b'] };
  assert.deepEqual(wanted, {
    metadata: {
      name: metadata.name,
      labels: { app: 'db' },
      annotations: metadata.annotations,
      finalizers: metadata.finalizers,
    },
    spec: {
      ...rest.spec,
      csi: { ...rest.spec?.csi, volumeHandle: 'new' },
      claimRef: { namespace: 'prod', name: 'data-db-0', uid: 'uid-data-db-0' },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    },
  });
});

test('a saved PersistentVolume without a node is not switched', () => {
  const anywhere = volumeOfTest({ spec: { nodeAffinity: undefined } });
  assert.throws(() => switchedTo(savedOf(anywhere), { handle: 'new', nodeName: 'b' }), {
    code: 'Internal',
  });
});
