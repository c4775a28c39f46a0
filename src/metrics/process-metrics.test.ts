import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { operationLatency } from './engine-metrics.ts';
import type { Metric } from './metric.ts';
import { exposition } from './metric.ts';
import { callLatency, processMetrics } from './process-metrics.ts';
import { queueMetric, watchMetrics } from './progress.ts';

async function lines(...all: readonly Metric[]): Promise<readonly string[]> {
  return (await exposition(all)).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

test('calls are counted by duration and code', async () => {
  const calls = callLatency();
  const call = { service: 'csi.v1.Node', method: 'NodePublishVolume', code: 'OK', durationMs: 60 } as const;
  calls.observe(call);
  calls.observe({ ...call, durationMs: 700 });
  calls.observe({ ...call, code: 'NotFound' });
  const labels = 'service="csi.v1.Node",method="NodePublishVolume",code="OK"';
  const shown = await lines(calls.metric);
  assert.ok(shown.includes(`moorage_call_seconds_bucket{le="0.1",${labels}} 1`));
  assert.ok(shown.includes(`moorage_call_seconds_bucket{le="2",${labels}} 2`));
  assert.ok(shown.includes(`moorage_call_seconds_count{${labels}} 2`));
  assert.ok(shown.includes(`moorage_call_seconds_count{${labels.replace('OK', 'NotFound')}} 1`));
});

test('changes of the engine are counted by class', async () => {
  const operations = operationLatency();
  operations.observe({ deviceClass: 'ssd', operation: 'create', code: 'ResourceExhausted', durationMs: 3 });
  const labels = 'device_class="ssd",operation="create",code="ResourceExhausted"';
  assert.ok((await lines(operations.metric)).includes(`moorage_pool_operation_seconds_sum{${labels}} 0.003`));
});

test('a queue shows how many keys wait, run and fail', async () => {
  const queue = { depth: { waiting: 3, running: 2, failing: 1 } };
  assert.deepEqual(await lines(queueMetric({ volumes: queue })), [
    'moorage_queue_keys{queue="volumes",state="waiting"} 3',
    'moorage_queue_keys{queue="volumes",state="running"} 2',
    'moorage_queue_keys{queue="volumes",state="failing"} 1',
  ]);
});

test('a watch shows its state, and has no age before the first event', async () => {
  const healthy = { synced: true, size: 7, lastEventAtMs: 1_000, reconnects: 2, relists: 1 };
  const fresh = { synced: false, size: 0, lastEventAtMs: undefined, reconnects: 0, relists: 0 };
  assert.deepEqual(await lines(...watchMetrics({ healthy, fresh }, new ManualClock(61_000))), [
    'moorage_watch_synced{watch="healthy"} 1',
    'moorage_watch_synced{watch="fresh"} 0',
    'moorage_watch_objects{watch="healthy"} 7',
    'moorage_watch_objects{watch="fresh"} 0',
    'moorage_watch_last_event_age_seconds{watch="healthy"} 60',
    'moorage_watch_reconnects_total{watch="healthy"} 2',
    'moorage_watch_reconnects_total{watch="fresh"} 0',
    'moorage_watch_relists_total{watch="healthy"} 1',
    'moorage_watch_relists_total{watch="fresh"} 0',
  ]);
});

test('the process reports its memory, CPU time and start time', async () => {
  const names = (await lines(...processMetrics())).map((line) => line.split(' ')[0]);
  const wanted = ['process_resident_memory_bytes', 'process_cpu_seconds_total', 'process_start_time_seconds'];
  assert.deepEqual(names, wanted);
});
