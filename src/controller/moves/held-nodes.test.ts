import assert from 'node:assert/strict';
import { test } from 'node:test';
import { movePhases } from '../../api/volume-move.ts';
import { isHeldByMove } from './held-nodes.ts';
import { moveOfTest } from './testing/move-of-test.ts';

test('a node is held only while a PersistentVolume may name it although another node has all data', () => {
  const held = movePhases.flatMap((phase) =>
    ['a', 'b', 'c'].filter((node) => isHeldByMove(node, moveOfTest(phase))).map((node) => `${phase} ${node}`),
  );
  assert.deepEqual(held, ['Committed a', 'Committed b', 'Switching a', 'Switching b', 'Opening b']);
  assert.equal(isHeldByMove('b', moveOfTest('Opening', { target: { opened: true } })), false);
  const condition = { type: 'Switched', status: 'True', reason: '', message: '', lastTransitionTime: '' } as const;
  assert.equal(isHeldByMove('b', moveOfTest('Aborting', { conditions: [condition] })), true, 'it switches back');
});
