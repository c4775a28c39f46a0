import assert from 'node:assert/strict';
import { test } from 'node:test';
import { invalidPoliciesOf, newEvents } from './invalid-policies.ts';

const common = { name: 'data', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };

test('an invalid policy is reported when it is set', () => {
  const claim = (word: string | undefined) => {
    const annotations = word === undefined ? {} : { 'moorage.dev/on-drain': word };
    return invalidPoliciesOf({ metadata: { ...common, annotations } });
  };
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
    const found = newEvents(claim(word), claim(previous));
    assert.equal(found.length > 0, isReported, JSON.stringify([word, previous]));
  }
});
