import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiVersionOf, configMaps, keyOf, leases, nodes, pathOf } from './resource.ts';

test('a resource has a path, and an object a key', () => {
  assert.equal(pathOf(configMaps), '/api/v1/configmaps');
  assert.equal(pathOf(configMaps, 'default'), '/api/v1/namespaces/default/configmaps');
  assert.equal(pathOf(leases, 'a/b'), '/apis/coordination.k8s.io/v1/namespaces/a%2Fb/leases');
  assert.equal(pathOf(nodes, 'ignored'), '/api/v1/nodes');
  assert.equal(apiVersionOf(nodes), 'v1');
  assert.equal(apiVersionOf(leases), 'coordination.k8s.io/v1');
  assert.equal(keyOf({ metadata: { name: 'a', namespace: 'default' } }), 'default/a');
  assert.equal(keyOf({ metadata: { name: 'a' } }), 'a');
});
