import assert from 'node:assert/strict';
import { test } from 'node:test';
import { predicate } from './extender.ts';

const gibi = 1024 ** 3;

function annotated(name: string, capacities: Readonly<Record<string, number | string>>) {
  const annotations = Object.fromEntries(
    Object.entries(capacities).map(([name, bytes]) => [`capacity.topolvm.io/${name}`, String(bytes)]),
  );
  return { metadata: { name, annotations } };
}

function decide(pod: ReturnType<typeof annotated>, nodes: ReturnType<typeof annotated>[]) {
  const { fitting, failed } = predicate(pod, nodes);
  return { fitting: fitting.map(({ metadata }) => metadata.name), failed };
}

test('a node fits if it has enough space in all classes that the pod requests', () => {
  const pod = annotated('pod', { '00default': 5 * gibi, fast: 2 * gibi });
  const nodes = [
    annotated('exact', { '00default': 5 * gibi, fast: 2 * gibi }),
    annotated('small', { '00default': 5 * gibi - 1, fast: 2 * gibi }),
    annotated('slow', { '00default': 5 * gibi }),
    annotated('odd', { '00default': 5 * gibi, fast: '2Gi' }),
    annotated('huge', { '00default': '99999999999999999999', fast: 2 * gibi }),
  ];
  assert.deepEqual(decide(pod, nodes), {
    fitting: ['exact', 'huge'],
    failed: {
      small: 'out of VG free space',
      slow: 'no capacity annotation',
      odd: 'bad capacity annotation: 2Gi',
    },
  });
});

test('a pod without requests fits everywhere', () => {
  const nodes = [annotated('a', {}), annotated('b', { fast: 'odd' })];
  assert.deepEqual(decide(annotated('pod', {}), nodes), { fitting: ['a', 'b'], failed: {} });
  assert.deepEqual(decide(annotated('pod', { fast: 'some' }), nodes), { fitting: ['a', 'b'], failed: {} });
});

test('even a request for zero bytes needs a node with the class', () => {
  const { failed } = decide(annotated('pod', { fast: 0 }), [annotated('a', {}), annotated('b', { fast: 0 })]);
  assert.deepEqual(failed, { a: 'no capacity annotation' });
});
