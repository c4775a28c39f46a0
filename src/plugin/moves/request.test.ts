import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localPvAnnotations, localPvFinalizer } from '../../api/local-pv.ts';
import { driverName, topologyKey } from '../../api/names.ts';
import type { MovePhase, StoredVolumeMove } from '../../api/volume-move.ts';
import { impossible, refuseUnlessAbortable } from './request.ts';

function move(phase: MovePhase, fill?: string): StoredVolumeMove {
  const metadata = { name: 'm', namespace: 'prod', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  return { metadata, spec: { claimName: 'data', ...(fill && { fill }) }, status: { phase } };
}

test('a move can be aborted until the target has all data', () => {
  for (const phase of ['Pending', 'Copying', 'Stopping', 'Freezing'] as const) refuseUnlessAbortable(move(phase));
  assert.throws(() => refuseUnlessAbortable(move('Committed')), /move m is Committed: the target has all data/);
  assert.throws(() => refuseUnlessAbortable(move('Done')), /move m is over: Done$/);
  assert.throws(() => refuseUnlessAbortable(move('Failed')), /move m is over: Failed$/);
});

test('a volume that is static, of another driver, or on the target already cannot move', () => {
  const metadata = { name: 'pv', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const onNode = (node: string) => ({
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: [node] }] }] },
  });
  const of = (driver: string) => ({
    metadata,
    spec: { csi: { driver, volumeHandle: 'h' }, nodeAffinity: onNode('a') },
  });
  const written = { annotations: { [localPvAnnotations.node]: 'a' }, finalizers: [localPvFinalizer] };
  const local = { metadata: { ...metadata, ...written }, spec: { local: { path: '/mnt/pv' } } };
  assert.equal(impossible(of(driverName), undefined), undefined);
  assert.equal(impossible(of(driverName), 'b'), undefined);
  assert.equal(impossible(of(driverName), 'a'), 'its volume is on node a already');
  assert.equal(impossible(of('example.com'), 'b'), 'PersistentVolume pv is not a volume of Moorage');
  assert.equal(impossible(local, undefined), 'static volumes do not move');
  assert.equal(impossible(undefined, undefined), 'it is not bound to a volume');
});

test('a copy for a new claim cannot be aborted, because it would begin again', () => {
  assert.throws(() => refuseUnlessAbortable(move('Copying', 'pvc-1')), /it ends when claim data is deleted$/);
});
