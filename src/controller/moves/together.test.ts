import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moveOfTest } from './testing/move-of-test.ts';
import { recordedPartners } from './together.ts';

const named = (name: string, together: readonly string[] = []) =>
  moveOfTest('Freezing', { together }, { metadata: { name, uid: name } });
const namesOf = (...args: Parameters<typeof recordedPartners>) => recordedPartners(...args).map(({ name }) => name);

test('either of two moves records that they belong together', () => {
  const [data, wal, other] = [named('data', ['wal']), named('wal'), named('other')];
  assert.deepEqual(namesOf(data, [data, wal, other]), ['wal']);
  assert.deepEqual(namesOf(wal, [data, wal, other]), ['data']);
  assert.deepEqual(namesOf(other, [data, wal, other]), []);
});

test('a partner that was deleted is not forgotten', () => {
  assert.deepEqual(recordedPartners(named('data', ['wal']), [named('data', ['wal'])]), [
    { name: 'wal', move: undefined },
  ]);
});
