import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { Informer } from '../kube/informer.ts';
import { nodes } from '../kube/resource.ts';
import { InMemoryApi } from '../kube/testing/in-memory-api.ts';
import { silentWatches, stuckQueues } from './progress.ts';

const minuteMs = 60_000;

test('a queue is stuck if one of its keys has run longer than any deadline', () => {
  const queue = (forMs: number) => ({ slowest: { key: 'pvc-1', forMs } });
  assert.deepEqual(stuckQueues({ volumes: queue(10 * minuteMs), idle: { slowest: undefined } }), []);
  assert.deepEqual(stuckQueues({ volumes: queue(16 * minuteMs) }), [
    'queue volumes: pvc-1 has made no progress for 16 min',
  ]);
});

test('a watch is blind before its first list, and after a long silence', () => {
  const clock = new ManualClock(10 * minuteMs);
  const watch = (synced: boolean, lastEventAtMs?: number) => ({ synced, lastEventAtMs: lastEventAtMs });
  assert.deepEqual(silentWatches({ node: watch(true, 6 * minuteMs) }, clock), []);
  assert.match(
    silentWatches({ node: watch(false) }, clock).join(),
    /^watch node: nothing has been read from the API server yet/,
  );
  assert.deepEqual(silentWatches({ node: watch(true, 4 * minuteMs) }, clock), [
    'watch node: no event from the API server for 6 min',
  ]);
});

test('a watch is not silent because somebody set the clock, ahead or back', async (t) => {
  const clock = new ManualClock();
  const { client } = new InMemoryApi();
  const node = new Informer({ client, resource: nodes, clock, log: silentLog });
  t.after(() => node.stop());
  node.start();
  await node.whenSynced(AbortSignal.timeout(120_000));
  for (const byMs of [60 * minuteMs, -120 * minuteMs]) {
    clock.jump(byMs);
    assert.deepEqual(silentWatches({ node }, clock), []);
  }
  clock.advance(6 * minuteMs);
  assert.deepEqual(silentWatches({ node }, clock), ['watch node: no event from the API server for 6 min']);
});
