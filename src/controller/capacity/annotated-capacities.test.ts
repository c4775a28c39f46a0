import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node, Stored } from '../../kube/resource.ts';
import { AnnotatedCapacities, type AnnotatedNode, annotatedNode } from './annotated-capacities.ts';

function node(name: string, annotations?: Record<string, string>) {
  return annotatedNode({ metadata: { name, annotations } } as unknown as Stored<Node>);
}

test('the free capacity of a node comes from its annotations', () => {
  const nodes = [
    node('a', { 'capacity.topolvm.io/00default': '100', 'capacity.topolvm.io/ssd': '100', other: '7' }),
    node('b', { 'capacity.topolvm.io/00default': '0', 'capacity.topolvm.io/hdd': '99999999999999999999' }),
    node('c', { 'capacity.topolvm.io/ssd': 'much' }),
    node('d'),
  ];
  const capacities = new AnnotatedCapacities({ list: () => nodes });
  assert.deepEqual(
    [...capacities.freeBytes('')],
    [
      ['a', 100n],
      ['b', 0n],
    ],
  );
  assert.deepEqual([...capacities.freeBytes('ssd')], [['a', 100n]]);
  assert.deepEqual([...capacities.freeBytes('hdd')], [['b', 99999999999999999999n]]);
  assert.deepEqual([...capacities.freeBytes('other')], []);
});

test('a node that is being deleted has no room for new volumes', () => {
  const metadata = {
    name: 'a',
    annotations: { 'capacity.topolvm.io/ssd': '100' },
    finalizers: ['topolvm.cybozu.com/node'],
  };
  const roomOf = (deletionTimestamp?: string) => {
    const node = annotatedNode({ metadata: { ...metadata, deletionTimestamp } } as unknown as Stored<Node>);
    const capacities = new AnnotatedCapacities({ list: () => [node] });
    return [[...capacities.freeBytes('ssd')], [...capacities.leaving()]];
  };
  assert.deepEqual(roomOf(), [[['a', 100n]], []]);
  assert.deepEqual(roomOf('now'), [[], ['a']]);
});

test('a node limits IO only if its annotation says so', () => {
  const nodes = [node('a', { 'moorage.dev/io-limits': 'true' }), node('b', { 'moorage.dev/io-limits': '' }), node('c')];
  assert.deepEqual([...new AnnotatedCapacities({ list: () => nodes }).limitingIo()], ['a']);
});

test('nodes may limit IO as long as none has annotations', () => {
  const room = { 'capacity.topolvm.io/00default': '1' };
  const mayLimitIo = (...nodes: AnnotatedNode[]) => new AnnotatedCapacities({ list: () => nodes }).mayLimitIo();
  assert.ok(mayLimitIo(node('a')));
  assert.ok(!mayLimitIo(node('a', room)));
  assert.ok(mayLimitIo(node('a', room), node('b', { ...room, 'moorage.dev/io-limits': 'true' })));
});
