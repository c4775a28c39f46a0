import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectMeta } from '../../kube/resource.ts';
import { heldClaim } from './held-claims.ts';

const heldBy = (finalizers: string[], fields: ObjectMeta = {}) =>
  heldClaim({
    metadata: {
      ...{ namespace: 'shop', name: 'db', uid: 'u', resourceVersion: '7', creationTimestamp: '', finalizers },
      ...fields,
    },
  })?.finalizers;
const deleted: ObjectMeta = { deletionTimestamp: '2026-01-01T00:00:00Z' };

test('a claim is held if it is being deleted and has a finalizer of an old TopoLVM version', () => {
  const protection = 'kubernetes.io/pvc-protection';
  assert.deepEqual(heldBy(['topolvm.io/pvc'], deleted), []);
  assert.deepEqual(heldBy(['topolvm.cybozu.com/pvc', protection, 'topolvm.io/pvc'], deleted), [protection]);
  assert.equal(heldBy(['topolvm.io/pvc']), undefined, 'it is not being deleted');
  assert.equal(heldBy([protection, 'topolvm.io/pvc-of-others'], deleted), undefined);
  assert.equal(heldBy([], deleted), undefined);
});
