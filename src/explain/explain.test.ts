import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { localPvAnnotations } from '../api/local-pv.ts';
import { claimKey, reserve } from '../api/names.ts';
import { explainClaim, explainNode } from './explain.ts';
import { reasons } from './explanation.ts';
import { Known } from './known.ts';
import { examples } from './testing/examples.ts';
import { node, pod, volumeOf } from './testing/objects.ts';
import { event, nodeB, ofPod, onB, owned } from './testing/situations.ts';

for (const { code, sentence, explain } of examples) {
  test(`${code}: ${sentence}`, () => {
    const found = explain();
    assert.equal(found?.sentence, sentence);
    assert.equal(found.code, code);
    if (found.severity === 'stuck') assert.ok(found.evidence.length > 0, 'there is no evidence');
  });
}

test('it is said whether the room of a pod is kept on its node', () => {
  const annotations = { [reserve.annotation]: 'true' };
  const asking = { ...owned, metadata: { ...owned.metadata, annotations } };
  const cordoned = { ...onB, nodes: nodeB({ spec: { unschedulable: true } }) };
  const placeholder = pod('reserve-1', [], {
    metadata: { namespace: 'moorage-system', annotations: { [claimKey]: 'prod/data' } },
    status: { nominatedNodeName: 'b' },
  });
  const kept = ofPod([asking], { ...cordoned, placeholders: [placeholder] });
  assert.equal(
    kept?.sentence,
    'pod db-0 waits: its data is on node b, which is cordoned; its CPU and memory are kept there; run kubectl uncordon b',
  );
  assert.ok(
    kept.evidence.includes('claim data: moorage.dev/reserve is true, and pod moorage-system/reserve-1 keeps its room'),
  );
  const events = [event(asking, 'RoomNotReserved', 'no PriorityClass with name high was found')];
  assert.deepEqual(ofPod([asking], { ...cordoned, placeholders: [], events })?.evidence.slice(-2), [
    'claim data: moorage.dev/reserve is true, but nothing keeps its room',
    'Event RoomNotReserved: no PriorityClass with name high was found',
  ]);
});

test('a claim with a static volume says where it is', () => {
  const annotations = { [localPvAnnotations.node]: 'b' };
  const known = new Known({ persistentVolumes: [volumeOf(owned, 'b', { metadata: { annotations } })] });
  assert.equal(explainClaim(owned, known).sentence, 'claim data is fine: its volume has its size on node b');
});

test('a node says whether it is Ready', () => {
  const sentence = (status: string) => {
    const found = node('b', 1n, { status: { conditions: [{ type: 'Ready', status }] } });
    return explainNode(found, new Known({ moves: [] })).sentence;
  };
  assert.match(sentence('True'), /^node b is fine: it is Ready, .*: kubectl moorage volumes -A --node b$/);
  assert.equal(sentence('Unknown'), 'node b waits: its kubelet does not answer; start node b');
});

test('each reason has an example', () => {
  assert.deepEqual(
    examples.map(({ code }) => code),
    Object.keys(reasons),
  );
});

test('docs/why.md lists each reason with its sentence and the first thing to do', () => {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'why.md'), 'utf8');
  const rows = text.split('\n').filter((line) => /^\| `[A-Z]\w+` \|/.test(line));
  const expected = examples.map(({ code, explain }) => {
    const { sentence = '', remedy = [] } = explain() ?? {};
    return `| \`${code}\` | ${sentence} | ${remedy[0] ? `\`${remedy[0].replaceAll('|', '\\|')}\`` : ''} |`;
  });
  assert.deepEqual(rows, expected);
});
