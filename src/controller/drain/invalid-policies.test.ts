import assert from 'node:assert/strict';
import { test } from 'node:test';
import { invalidPolicy } from './invalid-policies.ts';

test('a policy that is none is reported when it is set', () => {
  const rows: readonly (readonly [word: string | undefined, previous: string | undefined, isReported: boolean])[] = [
    [undefined, undefined, false],
    ['move', undefined, false],
    ['mvoe', undefined, true],
    ['mvoe', 'mvoe', false], // something else of the claim has changed
    ['Move', 'mvoe', true],
    ['', 'move', true],
    [undefined, 'mvoe', false],
  ];
  for (const [word, previous, isReported] of rows) {
    assert.equal(invalidPolicy(word, previous).length > 0, isReported, JSON.stringify([word, previous]));
  }
  assert.equal(
    invalidPolicy('mvoe', undefined)[0]?.message,
    'moorage.dev/on-drain is "mvoe"; use one of wait, move, delegate, drop',
  );
});
