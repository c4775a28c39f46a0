import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff } from './backoff.ts';

test('delays double up to a maximum, half of each delay is random, and a success resets them', () => {
  let chance = 1;
  const backoff = new Backoff({ firstMs: 100, longestMs: 500, random: () => chance });
  const delays = () => Array.from({ length: 4 }, () => backoff.nextDelayMs());
  assert.deepEqual(delays(), [100, 200, 400, 500]);
  chance = 0;
  assert.equal(backoff.nextDelayMs(), 250);
  backoff.reset();
  assert.equal(backoff.nextDelayMs(), 50);
});
