import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasLeft, leaveState } from './leave.ts';

const request = 'a@2026-01-10T00:00:00Z';
const later = 'a@2026-01-11T00:00:00Z';

test('only an answer to the current request counts', () => {
  const rows: readonly (readonly [Record<string, string> | undefined, boolean])[] = [
    [undefined, false],
    [{ 'moorage.dev/leave': request }, false],
    [{ 'moorage.dev/leave': request, 'moorage.dev/left': request }, true],
    [{ 'moorage.dev/leave': later, 'moorage.dev/left': request }, false],
    [{ 'moorage.dev/left': request }, false],
    [{ 'moorage.dev/leave': '', 'moorage.dev/left': '' }, false],
  ];
  for (const [annotations, expected] of rows) assert.equal(hasLeft(annotations), expected, JSON.stringify(annotations));
});

test('the state is told in the words of the operator', () => {
  assert.equal(leaveState({}), undefined);
  assert.equal(
    leaveState({ 'moorage.dev/leave': request }),
    'its operator was asked to leave node a at 2026-01-10T00:00:00Z: no answer yet',
  );
  assert.match(
    leaveState({ 'moorage.dev/leave': request, 'moorage.dev/leave-message': '3 of 12 shards left' }) ?? '',
    /: 3 of 12 shards left$/,
  );
  assert.equal(leaveState({ 'moorage.dev/leave': request, 'moorage.dev/left': request }), 'the data has left node a');
});
