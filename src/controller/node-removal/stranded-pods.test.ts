import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod, StatefulSet, StorageClass, Stored } from '../../kube/resource.ts';
import { createsOurClaim, waitingPod } from './stranded-pods.ts';

const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', uid: 'set', controller: true };

function pod(metadata: object, nodeName?: string): Stored<Pod> {
  return {
    metadata: { namespace: 'shop', name: 'db-0', uid: 'u', resourceVersion: '7', creationTimestamp: '', ...metadata },
    spec: {
      containers: [],
      volumes: [
        { name: 'data', persistentVolumeClaim: { claimName: 'data-db-0' } },
        { name: 'scratch', ephemeral: {} },
        { name: 'config', configMap: { name: 'x' } },
      ],
      ...(nodeName && { nodeName }),
    },
  };
}

test('only a pod of a StatefulSet that waits to be scheduled may be replaced', () => {
  assert.deepEqual(waitingPod(pod({ ownerReferences: [set] })), {
    namespace: 'shop',
    name: 'db-0',
    uid: 'u',
    resourceVersion: '7',
    set: { name: 'db', uid: 'set' },
    claimNames: ['data-db-0', 'db-0-scratch'],
  });
  for (const [state, other] of [
    ['bare', pod({})],
    ['of a ReplicaSet', pod({ ownerReferences: [{ ...set, kind: 'ReplicaSet' }] })],
    ["of somebody else's StatefulSet", pod({ ownerReferences: [{ ...set, apiVersion: 'apps.example.com/v1' }] })],
    ['only owned by a StatefulSet', pod({ ownerReferences: [{ ...set, controller: false }] })],
    ['being deleted', pod({ ownerReferences: [set], deletionTimestamp: 'now' })],
    ['scheduled', pod({ ownerReferences: [set] }, 'a')],
  ] as const) {
    assert.equal(waitingPod(other)?.set, undefined, state);
  }
});

test('only a claim of a template in a StorageClass of ours is re-created', () => {
  const isDefault = { 'storageclass.kubernetes.io/is-default-class': 'true' };
  const ours: StorageClass = { metadata: { name: 'local' }, provisioner: 'topolvm.io' };
  const theirs: StorageClass = { metadata: { name: 'cloud' }, provisioner: 'example.com' };
  const withTemplate = (storageClassName?: string): StatefulSet => ({
    spec: {
      serviceName: 'db',
      selector: {},
      template: {},
      volumeClaimTemplates: [
        { metadata: { name: 'data' }, spec: { ...(storageClassName !== undefined && { storageClassName }) } },
      ],
    },
  });
  const classes = [ours, theirs];
  const creates = (set: StatefulSet, pod: string, claim: string, among: readonly StorageClass[]) =>
    createsOurClaim(set, pod, claim, among, new Set(['static']));
  assert.equal(creates(withTemplate('local'), 'db-0', 'data-db-0', classes), true);
  assert.equal(creates(withTemplate('cloud'), 'db-0', 'data-db-0', classes), false);
  assert.equal(creates(withTemplate('gone'), 'db-0', 'data-db-0', classes), false);
  assert.equal(creates(withTemplate(''), 'db-0', 'data-db-0', classes), false);
  assert.equal(creates(withTemplate('local'), 'db-0', 'other-db-0', classes), false);
  assert.equal(creates({}, 'db-0', 'data-db-0', classes), false);
  const noProvisioner: StorageClass = { metadata: { name: 'static' }, provisioner: 'kubernetes.io/no-provisioner' };
  assert.equal(creates(withTemplate('static'), 'db-0', 'data-db-0', [noProvisioner]), true);
  const others = { ...noProvisioner, metadata: { name: 'of-others' } };
  assert.equal(creates(withTemplate('of-others'), 'db-0', 'data-db-0', [others]), false);

  const asDefault = (one: StorageClass) => ({ ...one, metadata: { ...one.metadata, annotations: isDefault } });
  assert.equal(creates(withTemplate(), 'db-0', 'data-db-0', classes), false);
  assert.equal(creates(withTemplate(), 'db-0', 'data-db-0', [asDefault(ours), theirs]), true);
  assert.equal(creates(withTemplate(), 'db-0', 'data-db-0', [ours, asDefault(theirs)]), false);
});
