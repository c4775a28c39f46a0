import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CsiNode, Stored } from '../../kube/resource.ts';
import { registeredNode } from './storage-capacities.ts';

test('a node that has just joined has no drivers yet', () => {
  const withDrivers = (drivers: unknown) =>
    registeredNode({ metadata: { name: 'a' }, spec: { drivers } } as unknown as Stored<CsiNode>);
  assert.deepEqual(withDrivers(null), { name: 'a', hasDriver: false });
  assert.deepEqual(withDrivers([]), { name: 'a', hasDriver: false });
  assert.deepEqual(withDrivers([{ name: 'topolvm.io' }]), { name: 'a', hasDriver: true });
});
