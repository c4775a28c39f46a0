import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverName, onScaleDown } from '../../api/names.ts';
import type { PersistentVolume, PersistentVolumeClaim, Pod, Stored } from '../../kube/resource.ts';
import type { ClaimingSet } from '../../kube/stateful-set.ts';
import { nextStep, type Observed, scalableClaim, scalableClaimOf } from './scale-down.ts';

const common = { uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };

function claim(policy?: string, metadata: object = {}): Stored<PersistentVolumeClaim> {
  const annotations = policy === undefined ? {} : { [onScaleDown.annotation]: policy };
  return {
    metadata: { ...common, name: 'data-db-2', namespace: 'shop', annotations, ...metadata },
    spec: { volumeName: 'pv' },
  };
}

function volume({
  policy,
  driver = driverName,
  uid = 'u',
  reclaim = 'Delete',
}: VolumeOfTest = {}): Stored<PersistentVolume> {
  const volumeAttributes = policy === undefined ? {} : { [onScaleDown.annotation]: policy };
  return {
    metadata: { ...common, name: 'pv' },
    spec: {
      persistentVolumeReclaimPolicy: reclaim,
      csi: { driver, volumeHandle: 'id', volumeAttributes },
      claimRef: { namespace: 'shop', name: 'data-db-2', uid },
    },
  };
}

interface VolumeOfTest {
  readonly policy?: string;
  readonly driver?: string;
  readonly uid?: string;
  readonly reclaim?: string;
}

function pod(name: string, claimName = 'other'): Stored<Pod> {
  return {
    metadata: { ...common, name, namespace: 'shop' },
    spec: { containers: [], volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }] },
  };
}

const db: ClaimingSet = {
  namespace: 'shop',
  name: 'db',
  isDeleting: false,
  templates: ['data'],
  start: 0,
  replicas: 2,
};
const scaledAway: Observed = { claim: claim('delete'), volume: volume(), pods: [pod('db-1', 'data-db-1')], sets: [db] };

test('a claim is released only with proof that its pod was scaled away', () => {
  const rows: readonly [title: string, change: Partial<Observed>, expected: string][] = [
    ['scaled away', {}, 'release'],
    ['scaled to zero', { sets: [{ ...db, replicas: 0 }] }, 'release'],
    ['the first ordinals were given up', { sets: [{ ...db, start: 3, replicas: 3 }] }, 'release'],
    ['by the class', { claim: claim(), volume: volume({ policy: 'delete' }) }, 'release'],
    ['the default', { claim: claim() }, 'nothing'],
    ['the claim has precedence', { claim: claim('keep'), volume: volume({ policy: 'delete' }) }, 'nothing'],
    ['a wrong word', { claim: claim('drop') }, 'nothing'],
    ['it has a pod', { sets: [{ ...db, replicas: 3 }] }, 'nothing'],
    ['no set', { sets: [] }, 'nothing'],
    ['the set is being deleted', { sets: [{ ...db, isDeleting: true }] }, 'nothing'],
    ['a set of another namespace', { sets: [{ ...db, namespace: 'other' }] }, 'nothing'],
    ['the set has no such template', { sets: [{ ...db, templates: ['log'] }] }, 'nothing'],
    ['its pod still ends', { pods: [pod('db-2')] }, 'nothing'],
    ['another pod uses it', { pods: [pod('debug', 'data-db-2')] }, 'nothing'],
    ['it is deleted already', { claim: claim('delete', { deletionTimestamp: '2026-01-02T00:00:00Z' }) }, 'nothing'],
    ['its volume is unknown', { volume: undefined }, 'nothing'],
    ['of another driver', { volume: volume({ driver: 'example.com' }) }, 'nothing'],
    ['of an earlier claim of this name', { volume: volume({ uid: 'old' }) }, 'nothing'],
  ];
  for (const [title, change, expected] of rows) {
    assert.equal(nextStep({ ...scaledAway, ...change }).kind, expected, title);
  }
});

test('of two sets that may own a claim, each can keep it', () => {
  const other = { ...db, name: 'x-db', templates: ['data'], replicas: 3 };
  const both = { ...db, templates: ['data-x'] };
  const observed = { ...scaledAway, claim: claim('delete', { name: 'data-x-db-2' }) };
  assert.equal(nextStep({ ...observed, sets: [both, other] }).kind, 'nothing');
  assert.equal(nextStep({ ...observed, sets: [both, { ...other, replicas: 2 }] }).kind, 'release');
});

test('the Event says why, and what happens to the data', () => {
  const says = (change: Partial<Observed>) => {
    const step = nextStep({ ...scaledAway, ...change });
    return step.kind === 'nothing' ? '' : step.event.message;
  };
  const why =
    'deleting this claim, because StatefulSet db no longer has pod db-2, and moorage.dev/on-scale-down is delete; ';
  assert.equal(says({}), `${why}its data is removed`);
  assert.equal(says({ volume: volume({ reclaim: 'Retain' }) }), `${why}PersistentVolume pv is retained`);
});

test('only claims with a policy are kept in memory', () => {
  assert.equal(scalableClaim(claim()), undefined);
  assert.deepEqual(scalableClaim(claim('delete')), { namespace: 'shop', name: 'data-db-2' });
  assert.equal(scalableClaimOf(volume()), undefined);
  assert.equal(scalableClaimOf(volume({ policy: 'keep' })), undefined);
  assert.deepEqual(scalableClaimOf(volume({ policy: 'delete' })), { namespace: 'shop', name: 'data-db-2' });
});
