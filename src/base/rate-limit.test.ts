import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RateLimit } from './rate-limit.ts';
import { ManualClock } from './testing/manual-clock.ts';

test('a burst passes at once, then the rate applies', async () => {
  const clock = new ManualClock();
  const rate = new RateLimit({ clock, burst: 2, perSecond: 4 });
  const { signal } = new AbortController();
  await rate.take(signal);
  await rate.take(signal);

  let passed = false;
  const third = rate.take(signal).then(() => {
    passed = true;
  });
  clock.advance(249);
  await new Promise(setImmediate);
  assert.equal(passed, false);
  clock.advance(1);
  await third;

  clock.advance(60_000);
  await rate.take(signal);
  await rate.take(signal);
  assert.equal(clock.timers, 0); // no more than the burst was saved, so nothing waits
});

test('a caller that aborts stops waiting', async () => {
  const rate = new RateLimit({ clock: new ManualClock(), burst: 0, perSecond: 1 });
  await assert.rejects(rate.take(AbortSignal.abort(new Error('stopping'))), /stopping/);
});
