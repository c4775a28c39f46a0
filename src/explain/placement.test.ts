import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onDrain } from '../api/names.ts';
import { node, pod, storageClass } from './testing/objects.ts';
import { copy, data, event, ofPod, onB, owned } from './testing/situations.ts';

const selecting = { spec: { nodeSelector: { disk: 'ssd' } } };
const withDisk = { labels: { disk: 'ssd', 'topology.topolvm.io/node': 'b' } };

test('nodes that a pod does not select are not blamed', () => {
  const other = node('a', 50n);
  const shut = node('b', 50n, { metadata: withDisk, spec: { unschedulable: true } });
  const sentence = (...nodes: (typeof shut)[]) => ofPod([data], { nodes }, selecting).sentence;
  assert.equal(sentence(other, shut), 'pod db-0 waits: every node that it selects is cordoned; run kubectl uncordon b');
  assert.equal(
    sentence(node('b', 50n, { metadata: withDisk, spec: { unschedulable: true } })),
    'pod db-0 waits: every node is cordoned; run kubectl uncordon b',
  );
});

test('only a pod that has data is advised to move it, and a pod that is too large to request less', () => {
  const requesting = (cpu: string) => ({
    spec: { containers: [{ name: 'main', resources: { requests: { cpu } } }] },
  });
  const taken = ['a', 'b'].map((nodeName) => pod('other', [], { spec: { nodeName, ...requesting('3').spec } }));
  const rows = [
    [ofPod([data], {}, selecting), 'NodeExcluded', 'change the pod so that it can run on a'],
    [ofPod([owned], onB, selecting), 'NodeExcluded', 'change the pod so that it can run on b, or move its volume'],
    [ofPod([data], { podsOfNodes: taken }, requesting('2')), 'NodeFull', 'end other pods on a, or add a node'],
    [ofPod([data], {}, requesting('40')), 'NodeFull', 'request less, or add a larger node'],
    [ofPod([owned], onB, requesting('40')), 'NodeFull', 'request less, or move its volume to a larger node'],
  ] as const;
  for (const [{ code, sentence }, expected, advice] of rows) {
    assert.equal(code, expected);
    assert.ok(sentence.endsWith(`; ${advice}`), sentence);
  }
  assert.match(ofPod([data], {}, requesting('40')).sentence, /: no node is large enough: a \(it has 4 cpu left, 40 re/);
});

test('data with the policy drop that a drain left behind can be given up', () => {
  const annotations = { [onDrain.annotation]: 'drop' };
  const cordoned = { ...onB, nodes: [node('a', 50n), node('b', 50n, { spec: { unschedulable: true } })] };
  const found = ofPod([{ ...owned, metadata: { ...owned.metadata, annotations } }], cordoned);
  assert.equal(
    found.sentence,
    'pod db-0 waits: its data is on node b, which is cordoned; run kubectl uncordon b, or give the data up',
  );
  assert.equal(found.evidence.at(-1), 'claim data: moorage.dev/on-drain is drop');
  const command = 'kubectl moorage drop pvc/data -n prod # or give its data up: says what would be lost';
  assert.equal(found.remedy.at(-1), command);
  assert.ok(!ofPod([owned], cordoned).remedy.includes(command));
});

test('a class that leaves out every node is named as the reason', () => {
  const allowedTopologies = [{ matchLabelExpressions: [{ key: 'topology.topolvm.io/node', values: ['nope'] }] }];
  const { code, sentence } = ofPod([data], { storageClasses: [storageClass('fast', { allowedTopologies })] });
  assert.equal(code, 'TopologyUnusable');
  assert.match(sentence, /allowedTopologies of StorageClass fast leaves it out.*; correct allowedTopologies, or add/);
});

test('only a copy that was just sent to its source is advised to be created again', () => {
  const copied = { ...copy('PersistentVolumeClaim', 'old'), status: owned.status ?? {} };
  const claim = { ...copied, spec: { ...copied.spec, volumeName: 'pv-data' } };
  const code = (events: Parameters<typeof ofPod>[1] = {}) => ofPod([claim], { ...onB, ...events }, selecting).code;
  const note = 'rpc error: code = ResourceExhausted desc = volume x is on node b, so its copy cannot be on a';
  assert.equal(code({ events: [event(claim, 'ProvisioningFailed', note)] }), 'SourceElsewhere');
  assert.equal(code(), 'NodeExcluded');
});
