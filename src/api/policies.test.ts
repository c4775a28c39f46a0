import assert from 'node:assert/strict';
import { test } from 'node:test';
import { invalidPolicies, invalidPolicyText } from './policies.ts';

test('a policy is invalid if its word is none of its own', () => {
  const rows: readonly (readonly [given: Record<string, string>, expected: readonly string[]])[] = [
    [{}, []],
    [{ 'moorage.dev/on-drain': 'move', 'moorage.dev/reserve': 'true', 'example.org/on-drain': 'mvoe' }, []],
    [{ 'moorage.dev/on-drain': 'mvoe' }, ['moorage.dev/on-drain is "mvoe"; use one of wait, move, delegate, drop']],
    [{ 'moorage.dev/on-node-removal': '' }, ['moorage.dev/on-node-removal is ""; use one of drop, keep, wait']],
    [
      { 'moorage.dev/on-scale-down': 'drop', 'moorage.dev/reserve': 'yes' },
      [
        'moorage.dev/on-scale-down is "drop"; use one of keep, delete',
        'moorage.dev/reserve is "yes"; use one of true, false',
      ],
    ],
  ];
  for (const [given, expected] of rows) assert.deepEqual(invalidPolicies(given).map(invalidPolicyText), expected);
  assert.deepEqual(invalidPolicies(undefined), []);
});
