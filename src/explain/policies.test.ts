import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainClaim } from './explain.ts';
import { cluster, onB, owned } from './testing/situations.ts';

test('a policy that is none is shown before it matters', () => {
  const sentence = (annotation: string, word: string) => {
    const annotations = { [annotation]: word };
    const claim = { ...owned, metadata: { ...owned.metadata, annotations } };
    return explainClaim(claim, cluster({ ...onB, claims: [claim] })).sentence.replace(/^claim data /, '');
  };
  const invalid: readonly (readonly [annotation: string, word: string, rest: string])[] = [
    ['on-drain', 'Move', 'its pod is not evicted when its node is drained; use one of wait, move, delegate, drop'],
    ['on-node-removal', '', 'it waits for a person when its node is removed; use one of drop, keep, wait'],
    ['on-scale-down', 'drop', 'it is kept when its pod is scaled away; use one of keep, delete'],
    ['reserve', 'yes', 'no CPU and memory is kept for its pod; use one of true, false'],
  ];
  for (const [name, word, rest] of invalid) {
    assert.equal(
      sentence(`moorage.dev/${name}`, word),
      `has an invalid policy: moorage.dev/${name} is "${word}", so ${rest}`,
    );
  }
  for (const [name, word] of [
    ['on-drain', 'drop'],
    ['on-node-removal', 'keep'],
    ['on-scale-down', 'delete'],
    ['reserve', 'false'],
  ]) {
    assert.match(sentence(`moorage.dev/${name}`, word ?? ''), /^is fine/);
  }
});
