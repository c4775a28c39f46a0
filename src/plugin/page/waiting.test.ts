import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { Explanations, type Subject, subjectsOf, type WaitingFacts } from './waiting.ts';

const facts: WaitingFacts = {
  claims: [],
  pods: [],
  classes: [
    { name: 'fast', provisioner: 'topolvm.io' },
    { name: 'cloud', provisioner: 'ebs.csi.aws.com' },
  ],
  served: new Set(['shop/data-0']),
  driver: 'topolvm.io',
};
const claim = (name: string, storageClass: string | undefined, since = '2026-01-01T00:00:00Z') => ({
  ...{ namespace: 'shop', name, since, storageClass },
});
const pod = (name: string, ...claims: string[]) => ({
  ...{ namespace: 'shop', name, since: '2026-01-01T00:00:00Z', claims },
});
const names = (change: Partial<WaitingFacts>) =>
  subjectsOf({ ...facts, ...change }).map(({ kind, name }) => `${kind} ${name}`);

for (const [what, change, expected] of [
  ['a claim of our class', { claims: [claim('a', 'fast')] }, ['claim a']],
  ['a claim of a class that does not exist', { claims: [claim('a', 'fsat')] }, ['claim a']],
  ['a claim of another driver', { claims: [claim('a', 'cloud')] }, []],
  ['a claim without a class', { claims: [claim('a', undefined)] }, []],
  ['a pod whose claim has its volume', { pods: [pod('p', 'shop/data-0')] }, ['pod p']],
  ['a pod without claims of ours', { pods: [pod('p', 'shop/other')] }, []],
  ['a pod whose claim waits', { pods: [pod('p', 'shop/data-0', 'shop/a')], claims: [claim('a', 'fast')] }, ['claim a']],
  [
    'the longest wait is first',
    { claims: [claim('a', 'fast', '2026-01-02T00:00:00Z'), claim('b', 'fast', '2026-01-01T00:00:00Z')] },
    ['claim b', 'claim a'],
  ],
] as const) {
  test(`waiting: ${what}`, () => assert.deepEqual(names(change), expected));
}

test('a change while reasons are looked for is looked at afterwards, once', async () => {
  const clock = new ManualClock();
  const passes: string[][] = [];
  let isBroken = false;
  const explanations = new Explanations(
    async (subjects) => {
      passes.push(subjects.map(({ name }) => name));
      if (isBroken) throw new Error('no answer');
      return subjects.map((each) => ({ ...each, code: 'Waits', sentence: 'it waits', evidence: [], remedy: [] }));
    },
    clock,
    () => {},
  );
  const subject = (name: string): Subject => ({
    kind: 'claim',
    namespace: 'shop',
    name,
    since: '2026-01-01T00:00:00Z',
  });
  explanations.changed([subject('a')]);
  assert.equal(explanations.rows()[0]?.sentence, 'looking for the reason');
  explanations.changed([subject('a'), subject('b')]);
  explanations.changed([subject('b')]);
  await turn();
  assert.deepEqual(passes, [['a']]);
  isBroken = true;
  clock.advance(5_000);
  await turn();
  assert.deepEqual(passes, [['a'], ['b']]);
  assert.equal(explanations.rows()[0]?.sentence, 'the reason is unknown: no answer');
  explanations.changed(Array.from({ length: 31 }, (_, i) => subject(`c-${i}`)));
  assert.deepEqual(explanations.rows().at(-1)?.remedy, ['kubectl moorage why pvc/c-30 -n shop']);
  explanations.stop();
  assert.equal(clock.timers, 0);
});
