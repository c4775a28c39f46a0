import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node, Pod, Stored } from '../../kube/resource.ts';
import { isDraining, podOnNode } from './drained-objects.ts';

test('a node is drained if it is cordoned, or if an autoscaler has decided to remove it', () => {
  const rows: readonly (readonly [Node['spec'], boolean])[] = [
    [undefined, false],
    [{}, false],
    [{ unschedulable: true }, true],
    [{ taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule', value: '1' }] }, true],
    [{ taints: [{ key: 'DeletionCandidateOfClusterAutoscaler', effect: 'PreferNoSchedule' }] }, false],
    [{ taints: [{ key: 'karpenter.sh/disrupted', effect: 'NoSchedule' }] }, true],
    [{ taints: [{ key: 'karpenter.sh/disruption', effect: 'NoSchedule', value: 'disrupting' }] }, true],
    [{ taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' }] }, false],
  ];
  for (const [spec, expected] of rows)
    assert.equal(isDraining({ ...(spec && { spec }) }), expected, JSON.stringify(spec));
});

test('only pods that use claims are kept, and whether an eviction would stop them', () => {
  const metadata = { name: 'db-0', namespace: 'prod', uid: '1', resourceVersion: '1', creationTimestamp: '' };
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data-db-0' } }];
  const spec = { containers: [], nodeName: 'a', volumes };
  const known = { namespace: 'prod', name: 'db-0', uid: '1', nodeName: 'a', claimNames: ['data-db-0'] };
  const kept = { ...known, isBeyondEviction: false, isEvicted: false };
  const lost = { ...kept, isBeyondEviction: true };
  const rows: readonly (readonly [Stored<Pod>, object | undefined])[] = [
    [{ metadata, spec }, kept],
    [{ metadata, spec: { ...spec, volumes: [] } }, undefined],
    [{ metadata, spec: { containers: [], volumes } }, undefined],
    [{ metadata: { ...metadata, deletionTimestamp: 'now' }, spec }, lost],
    [{ metadata: { ...metadata, annotations: { 'kubernetes.io/config.mirror': 'x' } }, spec }, lost],
  ];
  for (const [pod, expected] of rows) assert.deepEqual(podOnNode(pod), expected);
});

test('a pod is evicted if the API server says so, not because of another disruption', () => {
  const metadata = { name: 'db-0', namespace: 'prod', uid: '1', resourceVersion: '1', creationTimestamp: '' };
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data-db-0' } }];
  const evicted = { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' };
  const rows: readonly (readonly [object, boolean])[] = [
    [evicted, true],
    [{ ...evicted, status: 'False' }, false], // it was not deleted in the end
    [{ ...evicted, reason: 'DeletionByTaintManager' }, false],
    [{ ...evicted, reason: 'PreemptionByScheduler' }, false],
    [{ ...evicted, type: 'Ready' }, false],
  ];
  for (const [condition, expected] of rows) {
    const pod = { metadata, spec: { containers: [], nodeName: 'a', volumes }, status: { conditions: [condition] } };
    assert.equal(podOnNode(pod as Stored<Pod>)?.isEvicted, expected, JSON.stringify(condition));
  }
});
