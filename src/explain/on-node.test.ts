import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainClaim, explainPod, explainStatefulSet } from './explain.ts';
import { pod } from './testing/objects.ts';
import { cluster, event, nodeB, onB, owned, running, set } from './testing/situations.ts';

test('a user who may not read CSIDrivers learns from the Event that there is none', () => {
  const waiting = pod('db-0', ['data'], { spec: { nodeName: 'b' } });
  const note =
    'AttachVolume.Attach failed for volume "pv-data" : timed out waiting for external-attacher of topolvm.io CSI driver to attach volume id-data';
  const objects = { ...onB, claims: [owned], pods: [waiting], events: [event(waiting, 'FailedAttachVolume', note)] };
  const { code, evidence } = explainPod(waiting, cluster({ ...objects, csiDrivers: undefined }));
  assert.equal(code, 'CsiDriverMissing');
  assert.deepEqual(evidence, [`Event FailedAttachVolume: ${note}`]);
});

test('a pod that ran on a node that is not ready is not said to run', () => {
  const known = (status: 'True' | 'False' | 'Unknown') => {
    const nodes = nodeB({ status: { conditions: [{ type: 'Ready', status, message: 'disk pressure' }] } });
    const claims = [owned];
    return cluster({ ...onB, claims, pods: [running('db-0')], nodes, statefulSets: [set] });
  };
  const sentences = (status: 'True' | 'False' | 'Unknown') => [
    explainPod(running('db-0'), known(status)).sentence,
    explainClaim(owned, known(status)).sentence,
  ];
  assert.deepEqual(sentences('Unknown'), [
    'pod db-0 waits: it is on node b, and its kubelet does not answer; start node b',
    'claim data waits: pod db-0 is not ready: it is on node b, and its kubelet does not answer; start node b',
  ]);
  assert.match(sentences('False')[0] ?? '', /^pod db-0 waits: it is on node b, and it is not ready \(disk pressure\)/);
  assert.deepEqual(
    [explainClaim(owned, known('Unknown')), explainStatefulSet(set, known('Unknown'))].map(({ code }) => code),
    ['NodeNotReady', 'NodeNotReady'],
  );
  assert.match(sentences('True')[0] ?? '', /^pod db-0 runs on node b, and its claim has its volume$/);
  assert.match(sentences('True')[1] ?? '', /^claim data is fine/);
});
