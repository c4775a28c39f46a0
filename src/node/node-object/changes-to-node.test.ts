import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changesToNode, type NodeFacts } from './node-publisher.ts';

const wanted = new Map([
  ['capacity.topolvm.io/a', '1'],
  ['capacity.topolvm.io/b', '2'],
]);
const right: NodeFacts = {
  uid: 'u',
  annotations: Object.fromEntries(wanted),
  finalizers: ['topolvm.cybozu.com/node'],
  deleting: false,
  resourceVersion: '7',
};

test('only changed annotations are patched, and stale ones are removed', () => {
  const annotations = {
    'capacity.topolvm.io/a': '1',
    'capacity.topolvm.io/b': '9',
    'capacity.topolvm.io/old': '3',
    'moorage.dev/io-limits': 'true',
  };
  assert.deepEqual(changesToNode({ ...right, annotations }, wanted), {
    annotations: { 'capacity.topolvm.io/b': '2', 'capacity.topolvm.io/old': null, 'moorage.dev/io-limits': null },
  });
  assert.equal(changesToNode(right, wanted), undefined);
});

test('a missing finalizer is added to the existing ones, on condition that they are unchanged', () => {
  assert.deepEqual(changesToNode({ ...right, finalizers: ['theirs'] }, wanted), {
    annotations: {},
    finalizers: ['theirs', 'topolvm.cybozu.com/node'],
    resourceVersion: '7',
  });
  assert.equal(changesToNode({ ...right, finalizers: ['theirs'], deleting: true }, wanted), undefined);
});
