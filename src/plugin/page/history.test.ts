import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forecastOf, History } from './history.ts';
import type { Sample } from './model.ts';

const minute = 60_000;
const hour = 60 * minute;
const used = (atMs: number, usedBytes: number, metadataPercent?: number): Sample => ({
  ...{ atMs, usedBytes, sizeBytes: 1000 },
  ...(metadataPercent !== undefined && { metadataPercent }),
});

for (const [what, samples, nowMs, expected] of [
  ['nothing was seen', [], hour, undefined],
  ['a pool grows', [used(0, 400), used(hour, 500)], hour, { of: 'space', fullAtMs: 6 * hour }],
  ['it stopped growing a while ago', [used(0, 400), used(hour, 500)], 2 * hour, { of: 'space', fullAtMs: 12 * hour }],
  ['a pool stays as it is', [used(0, 500)], hour, undefined],
  ['a pool shrinks', [used(0, 500), used(hour, 400)], hour, undefined],
  ['it was watched for some minutes only', [used(0, 400), used(minute, 500)], 5 * minute, undefined],
  ['it takes more than a month', [used(0, 500), used(hour, 500.5)], hour, undefined],
  ['metadata runs out first', [used(0, 400, 60), used(hour, 410, 80)], hour, { of: 'metadata', fullAtMs: 2 * hour }],
  ['it is full', [used(0, 400), used(hour, 1000)], hour, { of: 'space', fullAtMs: hour }],
] as const) {
  test(`forecast: ${what}`, () => assert.deepEqual(forecastOf(samples, nowMs), expected));
}

test('the history of a pool stays short, and keeps its first and its last sample', () => {
  const history = new History();
  for (let i = 0; i < 10_000; i++) history.add('a/ssd', used(i, i));
  const samples = history.of('a/ssd');
  assert.ok(samples.length <= 121, String(samples.length));
  assert.deepEqual([samples[0]?.atMs, samples.at(-1)?.atMs], [0, 9999]);
  assert.deepEqual(history.of('b/ssd'), []);
});
