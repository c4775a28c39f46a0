import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { PoolFull } from './errors.ts';
import { type DoneOperation, observed } from './observed-pool.ts';
import type { PoolSettings, ServedPool } from './pool.ts';

const signal = new AbortController().signal;

test('each change is reported with its duration and outcome, and the outcome is passed on', async () => {
  const clock = new ManualClock();
  const reported: DoneOperation[] = [];
  const pool = {
    name: 'ssd',
    async create() {
      clock.advance(20);
      throw new PoolFull('ssd', 2n, 1n);
    },
    async remove() {
      clock.advance(5);
      return 'removed';
    },
  } as unknown as ServedPool;
  const open = observed(
    async () => pool,
    clock,
    (done) => reported.push(done),
  );
  const opened = await open({} as PoolSettings, signal);
  await assert.rejects(opened.create({ id: 'v', sizeBytes: 2n, tags: [] }, signal), PoolFull);
  assert.equal(await opened.remove('v', signal), 'removed');
  assert.deepEqual(reported, [
    { deviceClass: 'ssd', operation: 'create', code: 'ResourceExhausted', durationMs: 20 },
    { deviceClass: 'ssd', operation: 'remove', code: 'OK', durationMs: 5 },
  ]);
});
