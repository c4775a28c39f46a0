import assert from 'node:assert/strict';
import { test } from 'node:test';
import { topologyKey } from '../api/names.ts';
import { logicalVolumeOf, podFacts } from './facts.ts';

const meta = (name: string) => ({ name, uid: name, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' });
const on = (nodeName: string) => ({
  metadata: meta(`of-${nodeName}`),
  spec: { name: 'x', nodeName, size: '1Gi' },
  status: { volumeID: 'data' },
});
const pv = (...values: string[]) => ({
  metadata: meta('pv'),
  spec: {
    csi: { driver: 'topolvm.io', volumeHandle: 'data' },
    ...(values.length > 0 && {
      nodeAffinity: {
        required: { nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values }] }] },
      },
    }),
  },
});

test('of LogicalVolumes with the same volume ID, a PersistentVolume has the one of its node', () => {
  const both = [on('a'), on('b')];
  assert.equal(logicalVolumeOf(pv('b'), both)?.metadata.name, 'of-b');
  assert.equal(logicalVolumeOf(pv('c'), both), undefined);
  assert.equal(logicalVolumeOf(pv(), [on('a')])?.metadata.name, 'of-a');
  assert.throws(() => logicalVolumeOf(pv(), both), {
    name: 'AmbiguousVolume',
    message: /LogicalVolumes of-a on node a, of-b on node b: all have the volume ID data; .* node affinity/,
  });
});

test('the pod of an agent is known by its labels, and its node by its spec', () => {
  const labels = { 'app.kubernetes.io/name': 'moorage', 'app.kubernetes.io/component': 'node' };
  const pod = (more: object) => ({ metadata: { ...meta('agent-x'), namespace: 'moorage-system', ...more } });
  const spec = { nodeName: 'a', containers: [] };
  assert.deepEqual(podFacts({ ...pod({ labels }), spec }).agent, ['a', 'moorage-system/agent-x']);
  assert.equal(podFacts({ ...pod({ labels }) }).agent, undefined, 'not scheduled yet');
  assert.equal(podFacts({ ...pod({}), spec }).agent, undefined);
});
