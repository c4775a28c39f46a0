import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import type { Eraser, OnClean } from './eraser.ts';
import { ErasureCancelled, Erasures, type ErasureWork } from './erasures.ts';

const signal = new AbortController().signal;

/** Erases stretch by stretch, controlled by the test. */
function setUp() {
  const clock = new ManualClock();
  const calls: { id: string; fromBytes: bigint; onClean: OnClean; end: PromiseWithResolvers<void> }[] = [];
  const eraser: Pick<Eraser, 'erase'> = {
    erase(target, _policy, fromBytes, onClean, signal) {
      const end = Promise.withResolvers<void>();
      signal.addEventListener('abort', () => end.reject(signal.reason), { once: true });
      calls.push({ id: target.path, fromBytes, onClean, end });
      return end.promise;
    },
  };
  const erasures = new Erasures({ eraser, clock, log: silentLog });
  const events: string[] = [];
  const work = (id: string, settings: Partial<ErasureWork> = {}): ErasureWork => ({
    id,
    policy: { kind: 'shred', passes: 2 },
    cleanBytes: 0n,
    isKept: false,
    target: { kind: 'thick', path: id, sizeBytes: 1000n, mustBeSame: async () => undefined },
    record: async (bytes) => void events.push(`record ${id} ${bytes}`),
    release: async () => void events.push(`release ${id}`),
    ...settings,
  });
  /** The running attempt. */
  const call = (index: number) => calls[index] ?? assert.fail(`there was no attempt ${index}`);
  return { clock, erasures, events, work, calls, call };
}

test('a volume is erased, its progress is recorded, and its space is freed at the end', async () => {
  const { erasures, events, work, call } = setUp();
  erasures.add(work('a'));
  erasures.add(work('a')); // found again by a refresh
  await setImmediate();
  for (const cleanBytes of [10n, 60n, 80n, 120n]) await call(0).onClean(cleanBytes);
  assert.deepEqual(erasures.list(), [{ id: 'a', doneBytes: 360n, totalBytes: 3000n }]);
  assert.deepEqual(events, ['record a 60', 'record a 120']); // every twentieth of the volume
  const joined = erasures.join('a', signal);
  call(0).end.resolve();
  await joined;
  assert.deepEqual(events.at(-1), 'release a');
  assert.deepEqual([erasures.list(), erasures.has('a')], [[], false]);
  await erasures.join('a', signal); // already removed
});

test('an erasure goes on when its caller leaves', async () => {
  const { erasures, events, work, call } = setUp();
  erasures.add(work('a'));
  const leaving = new AbortController();
  const joined = erasures.join('a', leaving.signal);
  leaving.abort(new Error('left'));
  await assert.rejects(joined, /left/);
  await setImmediate();
  call(0).end.resolve();
  await erasures.join('a', signal);
  assert.deepEqual(events, ['release a']);
});

test('a failure is reported to the waiting caller, and the erasure is retried from where it stopped', async () => {
  const { clock, erasures, work, calls, call } = setUp();
  erasures.add(work('a'));
  await setImmediate();
  await call(0).onClean(400n);
  call(0).end.reject(new Error('disk broken'));
  await assert.rejects(erasures.join('a', signal), /disk broken/);
  await setImmediate();
  clock.advance(60_000);
  await setImmediate();
  assert.equal(call(1).fromBytes, 400n);
  call(1).end.reject(new Error('disk still broken'));
  await setImmediate();
  const joined = erasures.join('a', signal); // a join retries at once, without waiting for the backoff
  await setImmediate();
  assert.equal(calls.length, 3);
  call(2).end.resolve();
  await joined;
});

test('a failed release is retried', async () => {
  const { erasures, work, call } = setUp();
  let attempts = 0;
  const release = async () => {
    if (++attempts === 1) throw new Error('LVM hangs');
  };
  erasures.add(work('a', { release }));
  await setImmediate();
  await call(0).onClean(1000n);
  call(0).end.resolve();
  await assert.rejects(erasures.join('a', signal), /LVM hangs/);
  const joined = erasures.join('a', signal);
  await setImmediate();
  assert.equal(call(1).fromBytes, 1000n);
  call(1).end.resolve();
  await joined;
  assert.equal(attempts, 2);
});

test('an erasure that is called off is reported to the waiting caller and not retried', async () => {
  const { clock, erasures, events, work, calls, call } = setUp();
  erasures.add(work('a'));
  await setImmediate();
  const joined = erasures.join('a', signal);
  call(0).end.reject(new ErasureCancelled('a'));
  await assert.rejects(joined, { name: 'ErasureCancelled', code: 'Aborted' });
  clock.advance(600_000);
  await setImmediate();
  assert.deepEqual([calls.length, events, erasures.list()], [1, [], []]);
});

test('a stop aborts the work after the grace period, and the next start continues it', async () => {
  const { clock, erasures, events, work } = setUp();
  for (const id of ['a', 'b', 'c']) erasures.add(work(id));
  await setImmediate();
  const stopped = erasures.stop(1000);
  clock.advance(1000);
  await stopped;
  assert.deepEqual(events, []);
  assert.equal(clock.timers, 0);
});

test('a small volume need not wait for a large one', async () => {
  const { erasures, work, call } = setUp();
  erasures.add(work('large'));
  erasures.add(work('small'));
  await setImmediate();
  const small = erasures.join('small', signal);
  call(1).end.resolve();
  await small;
  assert.ok(erasures.has('large'));
});
