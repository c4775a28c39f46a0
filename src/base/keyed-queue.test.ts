import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as settle } from 'node:timers/promises';
import * as fc from 'fast-check';
import { KeyedQueue, Requeue } from './keyed-queue.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { silentLog } from './testing/silent-log.ts';

/** A queue whose runs end when the test says so. */
function workshop({ concurrency = 10, random = (): number => 1 } = {}) {
  const clock = new ManualClock();
  const running = new Map<string, PromiseWithResolvers<Requeue> & { readonly signal: AbortSignal }>();
  const starts: string[] = [];
  const queue = new KeyedQueue({
    reconcile(key, signal) {
      assert.ok(!running.has(key), `${key} runs twice at once`);
      starts.push(key);
      const work = Promise.withResolvers<Requeue>();
      running.set(key, { ...work, signal });
      assert.ok(running.size <= concurrency, 'more run than allowed');
      return work.promise;
    },
    concurrency,
    clock,
    log: silentLog,
    random,
  });
  const end = async (key: string, outcome: Requeue | Error = Requeue.never) => {
    const work = running.get(key);
    assert.ok(work, `${key} does not run`);
    running.delete(key);
    if (outcome instanceof Error) work.reject(outcome);
    else work.resolve(outcome);
    await settle();
  };
  return { queue, clock, running, starts, end };
}

test('a key that is added twice before it runs runs once', async () => {
  const { queue, starts } = workshop();
  queue.add('a');
  queue.add('a');
  await settle();
  assert.deepEqual(starts, ['a']);
});

test('a key that is added while it runs runs again', async () => {
  const { queue, starts, end } = workshop();
  queue.add('a');
  await settle();
  queue.add('a');
  queue.add('a');
  await settle();
  assert.deepEqual(starts, ['a']);
  await end('a');
  assert.deepEqual(starts, ['a', 'a']);
  await end('a');
  assert.deepEqual(starts, ['a', 'a']);
});

test('failures are retried with growing delays, and a success resets them', async () => {
  const { queue, clock, starts, end } = workshop();
  queue.add('a');
  await settle();
  for (const delayMs of [100, 200, 400, 800]) {
    const before = starts.length;
    await end('a', new Error('not yet'));
    clock.advance(delayMs - 1);
    await settle();
    assert.equal(starts.length, before, `ran before ${delayMs} ms`);
    clock.advance(1);
    await settle();
    assert.equal(starts.length, before + 1);
  }
  await end('a');
  queue.add('a');
  await settle();
  await end('a', new Error('again'));
  clock.advance(100);
  await settle();
  assert.ok(starts.length === 7);
});

test('backoff has jitter and an upper bound', async () => {
  const { queue, clock, starts, end } = workshop({ random: () => 0 });
  queue.add('a');
  await settle();
  for (let failure = 0; failure < 20; failure++) {
    await end('a', new Error('down'));
    clock.advance(30_000); // half of the maximum
    await settle();
  }
  assert.equal(starts.length, 21);
});

test('a failed key that is added again does not wait for its backoff', async () => {
  const { queue, clock, starts, end } = workshop();
  queue.add('a');
  await settle();
  await end('a', new Error('not yet'));
  queue.add('a');
  await settle();
  assert.deepEqual(starts, ['a', 'a']);
  assert.equal(clock.timers, 0);
});

test('a success can request a later run, and the earliest time wins', async () => {
  const { queue, clock, starts, end } = workshop();
  queue.add('a');
  await settle();
  queue.addAfter('a', 500);
  await end('a', Requeue.after(1000));
  clock.advance(500);
  await settle();
  assert.equal(starts.length, 2);
  await end('a');
  clock.advance(10_000);
  await settle();
  assert.equal(starts.length, 2);
});

test('no more keys run at once than allowed', async () => {
  const { queue, running, end } = workshop({ concurrency: 2 });
  for (const key of ['a', 'b', 'c']) queue.add(key);
  await settle();
  assert.deepEqual([...running.keys()], ['a', 'b']);
  await end('a');
  assert.deepEqual([...running.keys()], ['b', 'c']);
});

test('stop drops waiting keys, waits for running ones, and aborts them after the grace period', async () => {
  const { queue, clock, running, starts, end } = workshop({ concurrency: 1 });
  queue.add('a');
  queue.add('b');
  queue.addAfter('c', 10);
  await settle();
  let stopped = false;
  const stopping = queue.stop(1000).then(() => {
    stopped = true;
  });

  clock.advance(999);
  await settle();
  assert.deepEqual([stopped, running.get('a')?.signal.aborted], [false, false]);
  clock.advance(1);
  await settle();
  assert.deepEqual([stopped, running.get('a')?.signal.aborted], [false, true]);
  await end('a', new Error('aborted'));
  await stopping;

  queue.add('d');
  clock.advance(100_000);
  await settle();
  assert.deepEqual(starts, ['a']);
  assert.equal(clock.timers, 0);
});

const key = fc.constantFrom('a', 'b', 'c');
const event = fc.oneof(
  fc.record({ kind: fc.constant('add' as const), key }),
  fc.record({ kind: fc.constant('addAfter' as const), key, delayMs: fc.nat(500) }),
  fc.record({ kind: fc.constant('advance' as const), byMs: fc.nat(500) }),
  fc.record({ kind: fc.constant('succeed' as const), key }),
  fc.record({ kind: fc.constant('fail' as const), key }),
  fc.record({ kind: fc.constant('requeue' as const), key, delayMs: fc.nat(500) }),
);

test('no addition is lost, no key runs twice at once, and nothing runs without a reason', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { maxLength: 40 }),
      fc.integer({ min: 1, max: 3 }),
      async (events, concurrency) => {
        const { queue, clock, running, starts, end } = workshop({ concurrency }); // asserts the two limits itself
        const owed = new Set<string>(); // keys that were added, and have not started since
        let asked = 0;
        let seen = 0;
        const observe = async () => {
          await settle();
          for (const started of starts.slice(seen)) owed.delete(started);
          seen = starts.length;
        };

        for (const next of events) {
          if (next.kind === 'advance') clock.advance(next.byMs);
          else if (next.kind === 'add') {
            queue.add(next.key);
            owed.add(next.key);
            asked += 1;
          } else if (next.kind === 'addAfter') {
            queue.addAfter(next.key, next.delayMs);
            owed.add(next.key);
            asked += 1;
          } else if (running.has(next.key)) {
            if (next.kind === 'succeed') await end(next.key);
            else {
              asked += 1;
              owed.add(next.key);
              await end(next.key, next.kind === 'fail' ? new Error('no') : Requeue.after(next.delayMs));
            }
          }
          await observe();
        }
        // Let everything finish.
        while (running.size > 0 || clock.timers > 0) {
          for (const key of running.keys()) await end(key);
          clock.advance(60_000);
          await observe();
        }
        assert.deepEqual([...owed], []);
        assert.ok(starts.length <= asked, `${starts.length} runs for ${asked} reasons`);
      },
    ),
    { numRuns: 200 },
  );
});

test('a queue reports how many keys wait, run and have failed', async () => {
  const { queue, end } = workshop({ concurrency: 1 });
  queue.add('a');
  queue.add('b');
  queue.add('c');
  assert.deepEqual(queue.depth, { waiting: 2, running: 1, failing: 0 });
  await settle();
  await end('a', new Error('no'));
  await end('b');
  assert.deepEqual(queue.depth, { waiting: 0, running: 1, failing: 1 });
});

test('a key that waits aside frees its slot, and takes one again before it continues', async () => {
  const clock = new ManualClock();
  const steps: string[] = [];
  const [elsewhere, other] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const queue = new KeyedQueue({
    async reconcile(key, _, aside) {
      steps.push(`${key} begins`);
      await (key === 'long' ? aside(elsewhere.promise) : other.promise);
      steps.push(`${key} ends`);
      return Requeue.never;
    },
    concurrency: 1,
    clock,
    log: silentLog,
    random: () => 1,
  });
  queue.add('long');
  queue.add('other');
  queue.add('last');
  await settle();
  assert.deepEqual(steps, ['long begins', 'other begins']);
  queue.add('long');
  clock.advance(5);
  await settle();
  assert.deepEqual(queue.depth, { waiting: 2, running: 2, failing: 0 }, 'it never runs twice at once');
  assert.deepEqual(queue.slowest, { key: 'other', forMs: 5 });

  elsewhere.resolve();
  await settle();
  assert.deepEqual(steps, ['long begins', 'other begins']);
  other.resolve();
  await settle();
  assert.deepEqual(steps.slice(2), ['other ends', 'long ends', 'last begins', 'last ends', 'long begins', 'long ends']);
  assert.equal(queue.slowest, undefined);
});

test('an error while waiting aside fails the key', async () => {
  const clock = new ManualClock();
  let tries = 0;
  const queue = new KeyedQueue({
    reconcile(_key, _signal, aside) {
      tries += 1;
      return aside(Promise.reject(new Error('no')));
    },
    concurrency: 1,
    clock,
    log: silentLog,
    random: () => 1,
  });
  queue.add('a');
  await settle();
  clock.advance(100);
  await settle();
  assert.deepEqual([tries, queue.depth.running], [2, 0]);
});
