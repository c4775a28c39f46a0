import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { prioritize } from './extender.ts';
import { parseSchedulerConfig } from './scheduler-config.ts';

const gibi = 1024n ** 3n;
const annotated = (annotations: Record<string, string>, name = 'n') => ({ metadata: { name, annotations } });
const pod = annotated({ 'capacity.topolvm.io/00default': '1' });

function scoreOf(capacity: string, divisor = 1): number | undefined {
  const { divisors } = parseSchedulerConfig(`default-divisor: ${divisor}`);
  return prioritize(pod, [annotated({ 'capacity.topolvm.io/00default': capacity })], divisors)[0]?.score;
}

const scores: readonly [bigint, number, number][] = [
  [0n, 1, 0],
  [1n, 1, 1],
  [gibi - 1n, 1, 1],
  [gibi, 1, 1],
  [4n * gibi, 1, 2],
  [8n * gibi - 1n, 1, 2],
  [8n * gibi, 1, 3],
  [1024n * gibi, 1, 10],
  [2n ** 60n, 1, 10],
  [1024n * gibi, 10, 6],
  [gibi, 1000, 1],
  [gibi, 0.01, 6],
];
for (const [capacity, divisor, score] of scores) {
  test(`${capacity} bytes over ${divisor} score ${score}`, () =>
    assert.equal(scoreOf(String(capacity), divisor), score));
}

test('more free capacity never scores less, and kube-scheduler accepts every score', () => {
  const bytes = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
  const divisor = fc.double({ min: 0.001, max: 1e6, noNaN: true });
  fc.assert(
    fc.property(bytes, bytes, divisor, (a, b, divisor) => {
      const [less = -1, more = -1] = [a < b ? a : b, a < b ? b : a].map((room) => scoreOf(String(room), divisor));
      assert.ok(less <= more && less >= 0 && more <= 10 && Number.isInteger(less) && Number.isInteger(more));
    }),
  );
});

test('the class with the lowest score decides, each with its own divisor', () => {
  const { divisors } = parseSchedulerConfig('divisors: { fast: 4 }');
  const both = annotated({ 'capacity.topolvm.io/00default': '1', 'capacity.topolvm.io/fast': '1' });
  const nodes = [
    annotated({ 'capacity.topolvm.io/00default': `${16n * gibi}`, 'capacity.topolvm.io/fast': `${32n * gibi}` }, 'a'),
    annotated({ 'capacity.topolvm.io/00default': `${16n * gibi}` }, 'b'),
    annotated({ 'capacity.topolvm.io/00default': 'much' }, 'c'),
    annotated({}, 'd'),
  ];
  assert.deepEqual(prioritize(both, nodes, divisors), [
    { host: 'a', score: 3 },
    { host: 'b', score: 4 },
    { host: 'c', score: 0 },
    { host: 'd', score: 0 },
  ]);
});

test('a pod without requests gets no scores', () => {
  assert.deepEqual(prioritize(annotated({}), [annotated({})], parseSchedulerConfig('').divisors), []);
});
