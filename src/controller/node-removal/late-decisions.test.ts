import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node, Stored } from '../../kube/resource.ts';
import { isGone } from './late-decisions.ts';

function volume(missingFrom?: string) {
  const annotations = { 'moorage.dev/node-removed': 'old' };
  return {
    metadata: { name: 'pvc-1', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
    status: { volumeID: 'u', ...(missingFrom && { missingFrom }) },
  };
}

function node(uid: string, metadata: object = {}): Stored<Node> {
  return { metadata: { name: 'a', uid, resourceVersion: '1', creationTimestamp: '', ...metadata } };
}

test('the machine of a volume is gone if its Node is, or if the machine that has its name now does not have the volume', () => {
  const rows = [
    ['its Node does not exist', volume(), undefined, true],
    ['its Node is being deleted', volume(), node('old', { deletionTimestamp: 'now' }), true],
    ['its Node exists', volume(), node('old'), false],
    ['a Node of its name exists, and has not reported yet', volume(), node('new'), false],
    ['a Node of its name exists, and is being deleted', volume(), node('new', { deletionTimestamp: 'now' }), false],
    ['the machine of its name does not have it', volume('new'), node('new'), true],
    ['an earlier machine of its name did not have it', volume('earlier'), node('new'), false],
  ] as const;
  for (const [state, object, found, gone] of rows) assert.equal(isGone(object, found), gone, state);
});
