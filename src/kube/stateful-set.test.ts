import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimingSet, covers, ordinalOf } from './stateful-set.ts';

const metadata = {
  name: 'db',
  namespace: 'shop',
  uid: '1',
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
};
const templates = ['data', 'log'].map((name) => ({ metadata: { name } }));
const base = { selector: {}, serviceName: 'db', template: {} };
const set = claimingSet({ metadata, spec: { ...base, volumeClaimTemplates: templates } }) ?? assert.fail();

test('a claim belongs to a set by the name of a template, of the set, and an ordinal', () => {
  const rows: [string, number | undefined][] = [
    ['data-db-0', 0],
    ['log-db-12', 12],
    ['data-db-01', undefined],
    ['data-db-', undefined],
    ['data-db', undefined],
    ['data-db-0-0', undefined],
    ['data-db-x-0', undefined],
    ['other-db-0', undefined],
    ['data-mydb-0', undefined],
  ];
  for (const [claim, ordinal] of rows) assert.equal(ordinalOf(set, claim), ordinal, claim);
});

test('a set has the pods from its first ordinal on', () => {
  assert.deepEqual(
    [0, 1].map((ordinal) => covers(set, ordinal)),
    [true, false],
    'one replica, unless it says otherwise',
  );
  const later = { ...set, start: 3, replicas: 2 };
  assert.deepEqual(
    [2, 3, 4, 5].map((ordinal) => covers(later, ordinal)),
    [false, true, true, false],
  );
});

test('a set without claim templates creates no claims', () => {
  assert.equal(claimingSet({ metadata, spec: base }), undefined);
});
