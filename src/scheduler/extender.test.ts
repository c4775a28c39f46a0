import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extender } from './extender.ts';
import { parseSchedulerConfig } from './scheduler-config.ts';

const answers = extender(parseSchedulerConfig('').divisors);
const capacity = (bytes: number) => ({ annotations: { 'capacity.topolvm.io/00default': String(bytes) } });
const pod = { metadata: { name: 'p', ...capacity(1024 ** 3) }, spec: {} };
const roomy = { metadata: { name: 'roomy', labels: { a: 'b' }, ...capacity(2 ** 33) }, status: { phase: 'x' } };
const full = { metadata: { name: 'full', ...capacity(0) } };

for (const [who, args] of [
  ['kube-scheduler', { Pod: pod, Nodes: { metadata: {}, items: [roomy, full] }, NodeNames: null }],
  ['a client of TopoLVM', { pod, nodes: { items: [roomy, full] } }],
] as const) {
  test(`${who} gets the nodes that fit, complete`, () => {
    const answer = answers['/predicate']?.(args) as { nodes: { items: unknown[] }; failedNodes: unknown };
    assert.deepEqual(answer.nodes.items, [roomy]);
    assert.deepEqual(answer.failedNodes, { full: 'out of VG free space' });
  });

  test(`${who} gets the scores`, () => {
    assert.deepEqual(answers['/prioritize']?.(args), [
      { host: 'roomy', score: 3 },
      { host: 'full', score: 0 },
    ]);
  });
}

test('/status answers ok', () => assert.equal(answers['/status']?.(undefined), 'ok'));

for (const [what, args] of [
  ['nothing', undefined],
  ['text', 'Pod'],
  ['a pod alone', { Pod: pod }],
  ['nodes by name', { Pod: pod, NodeNames: ['a'] }],
  ['annotations that are not text', { Pod: { metadata: { annotations: { a: 1 } } }, Nodes: { items: [] } }],
] as const) {
  test(`${what} is refused`, () => {
    for (const path of ['/predicate', '/prioritize']) {
      assert.throws(() => answers[path]?.(args), { code: 'InvalidArgument', message: /; send Pod and Nodes, as/ });
    }
  });
}
