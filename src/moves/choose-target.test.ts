import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusedBy } from '../kube/pod-constraints.ts';
import type { Node, Pod, Stored } from '../kube/resource.ts';
import { chooseTarget, type TargetRequest } from './choose-target.ts';
import { nodeOfTest, podOfTest } from './testing/nodes-and-pods.ts';

const request: TargetRequest = {
  sourceNode: 'a',
  targetNode: undefined,
  bytes: new Map([['ssd', 4n * 1024n ** 3n]]),
  pods: [podOfTest('db-0')],
  busy: new Set(),
  freeBytes: ({ metadata }, deviceClass) => {
    const free = metadata.annotations?.[`capacity.topolvm.io/${deviceClass}`];
    return free === undefined ? undefined : BigInt(free);
  },
};

/** A node with this much free space in device class ssd. */
function node(name: string, gibi: number, change: Parameters<typeof nodeOfTest>[1] = {}): Stored<Node> {
  const annotations = { 'capacity.topolvm.io/ssd': String(gibi * 1024 ** 3) };
  return nodeOfTest(name, { ...change, metadata: { annotations, ...change.metadata } });
}

const chosen = (change: Partial<TargetRequest>, ...nodes: Stored<Node>[]) => {
  const target = chooseTarget({ ...request, ...change }, [node('a', 100), ...nodes]);
  return target.kind === 'node' ? target.name : target.kind === 'busy' ? `busy: ${target.names.join()}` : target.reason;
};

test('the node with the most free space is chosen, never the source', () => {
  assert.equal(chosen({}, node('b', 5), node('c', 50), node('d', 20)), 'c');
  assert.equal(chosen({ targetNode: 'b' }, node('b', 5), node('c', 50)), 'b');
});

test('all device classes must have room, and the fullest one counts', () => {
  const bytes = new Map([
    ['ssd', 1n],
    ['hdd', 1n],
  ]);
  const having = (name: string, ssd: number, hdd: number) =>
    nodeOfTest(name, {
      metadata: { annotations: { 'capacity.topolvm.io/ssd': `${ssd}`, 'capacity.topolvm.io/hdd': `${hdd}` } },
    });
  assert.equal(chosen({ bytes }, having('b', 50, 2), having('c', 9, 8)), 'c');
  assert.match(chosen({ bytes }, having('b', 50, 0)), /node b: it has 0 B free/);
});

test('a refusal names the obstacle of each node', () => {
  assert.equal(chosen({}), 'there is no other node');
  assert.equal(chosen({ targetNode: 'a' }, node('b', 5)), 'the volume is on node a already');
  assert.equal(chosen({ targetNode: 'z' }, node('b', 5)), 'there is no node z');
  const rows: readonly (readonly [Stored<Node>, string])[] = [
    [node('b', 3), 'node b: it has 3 GiB free, 4 GiB are needed'],
    [nodeOfTest('b', { metadata: { annotations: {} } }), 'node b: it has no device class ssd'],
    [node('b', 9, { metadata: { deletionTimestamp: 'now' } }), 'node b: it is being deleted'],
    [node('b', 9, { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } }), 'node b: it is not ready'],
    [node('b', 9, { spec: { unschedulable: true } }), 'node b: pod db-0 cannot run there: it is cordoned'],
  ];
  for (const [candidate, reason] of rows) assert.equal(chosen({}, candidate), reason);
  const many = Array.from({ length: 7 }, (_, i) => node(`n${i}`, 1));
  assert.match(chosen({}, ...many), /node n4: [^;]* and 2 more$/);
});

test('a node with a move is chosen only if there is no other, and then waited for', () => {
  assert.equal(chosen({ busy: new Set(['c']) }, node('b', 5), node('c', 50)), 'b');
  assert.equal(chosen({ busy: new Set(['c']) }, node('b', 1), node('c', 50)), 'busy: c');
});

test("a pod's own spec decides which nodes it can run on", () => {
  const labelled = nodeOfTest('b', { metadata: { labels: { zone: 'x', cores: '8' } } });
  const tainted = nodeOfTest('b', { spec: { taints: [{ key: 'db', value: 'yes', effect: 'NoExecute' }] } });
  const affine = (...terms: object[]) => ({
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
  });
  const expression = (key: string, operator: string, ...values: string[]) => ({ key, operator, values });
  const rows: readonly (readonly [object, Stored<Node>, boolean])[] = [
    [{ nodeSelector: { zone: 'x' } }, labelled, true],
    [{ nodeSelector: { zone: 'y' } }, labelled, false],
    [affine({ matchExpressions: [expression('zone', 'In', 'x', 'y')] }), labelled, true],
    [affine({ matchExpressions: [expression('zone', 'NotIn', 'x')] }), labelled, false],
    [affine({ matchExpressions: [expression('rack', 'NotIn', 'x')] }), labelled, true],
    [affine({ matchExpressions: [expression('rack', 'Exists')] }), labelled, false],
    [affine({ matchExpressions: [expression('rack', 'DoesNotExist')] }), labelled, true],
    [affine({ matchExpressions: [expression('cores', 'Gt', '4')] }), labelled, true],
    [affine({ matchExpressions: [expression('cores', 'Lt', '4')] }), labelled, false],
    [affine({ matchFields: [expression('metadata.name', 'In', 'b')] }), labelled, true],
    [
      affine(
        { matchExpressions: [expression('rack', 'Exists')] },
        { matchExpressions: [expression('zone', 'Exists')] },
      ),
      labelled,
      true,
    ],
    [affine({}), labelled, false],
    [{}, tainted, false],
    [{ tolerations: [{ key: 'db', operator: 'Exists' }] }, tainted, true],
    [{ tolerations: [{ key: 'db', value: 'yes', effect: 'NoExecute' }] }, tainted, true],
    [{ tolerations: [{ key: 'db', value: 'no' }] }, tainted, false],
    [{ tolerations: [{ operator: 'Exists' }] }, tainted, true],
    [{}, nodeOfTest('b', { spec: { taints: [{ key: 'db', effect: 'PreferNoSchedule' }] } }), true],
  ];
  for (const [spec, candidate, expected] of rows) {
    const pod: Pod = { spec: { containers: [], ...spec } };
    assert.equal(refusedBy(pod, candidate) === undefined, expected, JSON.stringify(spec));
  }
});
