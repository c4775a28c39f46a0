import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counter, exposition, gauge } from './metric.ts';
import { callLatency } from './process-metrics.ts';

test('gauges and counters are escaped', async () => {
  const room = gauge({
    name: 'room_bytes',
    help: 'A "room"\nof C:\\.',
    labelNames: ['path', 'node'],
    read: () => [
      { labels: { path: 'C:\\disk\n"new"', node: 'ä{}=,' }, value: 1e21 },
      { labels: { path: '', node: '' }, value: -0.5 },
    ],
  });
  const calls = counter({ name: 'calls_total', help: 'All.', read: async () => [{ value: 3 }] });
  assert.equal(
    await exposition([room, calls]),
    `# HELP room_bytes A "room"\\nof C:\\\\.
# TYPE room_bytes gauge
room_bytes{path="C:\\\\disk\\n\\"new\\"",node="ä{}=,"} 1e+21
room_bytes{path="",node=""} -0.5

# HELP calls_total All.
# TYPE calls_total counter
calls_total 3
`,
  );
});

test('durations are a histogram, which has no lines before the first observation', async () => {
  const { metric, observe } = callLatency();
  const heading = `# HELP moorage_call_seconds Duration of gRPC calls, by service, method and code.
# TYPE moorage_call_seconds histogram
`;
  assert.equal(await exposition([metric]), heading);
  observe({ service: 'csi.v1.Node', method: 'NodeGetInfo', code: 'OK', durationMs: 250 });
  const labels = 'service="csi.v1.Node",method="NodeGetInfo",code="OK"';
  const bucket = (le: string, count: number) => `moorage_call_seconds_bucket{le="${le}",${labels}} ${count}\n`;
  const below = ['0.005', '0.02', '0.1'].map((le) => bucket(le, 0)).join('');
  const above = ['0.5', '2', '10', '60', '+Inf'].map((le) => bucket(le, 1)).join('');
  const ends = `moorage_call_seconds_sum{${labels}} 0.25\nmoorage_call_seconds_count{${labels}} 1\n`;
  assert.equal(await exposition([metric]), heading + below + above + ends);
});

test('an unknown value is not shown, nor is one that is gone', async () => {
  let samples = [{ labels: { disk: 'a' }, value: 1 }];
  const byDisk = gauge({ name: 'by_disk', help: 'One each.', labelNames: ['disk'], read: () => samples });
  const unknown = gauge({ name: 'unknown', help: 'Nobody knows.', read: () => [] });
  const values = async () => (await exposition([byDisk, unknown])).split('\n').filter((line) => /^\w/.test(line));
  assert.deepEqual(await values(), ['by_disk{disk="a"} 1']);
  samples = [{ labels: { disk: 'b' }, value: 2 }];
  assert.deepEqual(await values(), ['by_disk{disk="b"} 2']);
});

test('concurrent scrapes get the same metrics', async () => {
  const calls = counter({ name: 'calls_total', help: 'All.', read: async () => [{ value: 3 }] });
  const texts = await Promise.all([exposition([calls]), exposition([calls]), exposition([calls])]);
  for (const text of texts) assert.match(text, /^calls_total 3$/m);
});
