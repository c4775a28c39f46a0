import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { exposition } from './exposition.ts';
import { Histogram } from './histogram.ts';
import type { Metric, Sample } from './metric.ts';

const gauge = (name: string, help: string, samples: readonly Sample[]): Metric => {
  return { name, help, type: 'gauge', read: () => samples };
};

test('a gauge, a counter and a histogram, with all that has to be escaped', async () => {
  const seconds = new Histogram({ name: 'call_seconds', help: 'How long.', bounds: [0.5, 2] });
  for (const value of [0.25, 0.5, 1, 70]) seconds.observe({ method: 'Get', code: 'OK' }, value);
  seconds.observe({ method: 'Put', code: 'OK' }, 2);
  const text = await exposition([
    gauge('room_bytes', 'A "room"\nof C:\\.', [
      { labels: { path: 'C:\\disk\n"new"', node: 'ä{}=,' }, value: 1e21 },
      { labels: { path: '', node: '' }, value: -0.5 },
    ]),
    { name: 'calls_total', help: 'All.', type: 'counter', read: async () => [{ value: 3 }] },
    gauge('strange', '', [
      { labels: { is: 'no number' }, value: Number.NaN },
      { labels: { is: 'more than all' }, value: Number.POSITIVE_INFINITY },
      { labels: { is: 'less than nothing' }, value: Number.NEGATIVE_INFINITY },
    ]),
    seconds,
    new Histogram({ name: 'never_observed', help: 'Nothing.', bounds: [1] }),
  ]);
  assert.equal(
    text,
    `# HELP room_bytes A "room"\\nof C:\\\\.
# TYPE room_bytes gauge
room_bytes{path="C:\\\\disk\\n\\"new\\"",node="ä{}=,"} 1e+21
room_bytes{path="",node=""} -0.5

# HELP calls_total All.
# TYPE calls_total counter
calls_total 3

# HELP strange ${''}
# TYPE strange gauge
strange{is="no number"} NaN
strange{is="more than all"} +Inf
strange{is="less than nothing"} -Inf

# HELP call_seconds How long.
# TYPE call_seconds histogram
call_seconds_bucket{le="0.5",method="Get",code="OK"} 2
call_seconds_bucket{le="2",method="Get",code="OK"} 3
call_seconds_bucket{le="+Inf",method="Get",code="OK"} 4
call_seconds_sum{method="Get",code="OK"} 71.75
call_seconds_count{method="Get",code="OK"} 4
call_seconds_bucket{le="0.5",method="Put",code="OK"} 0
call_seconds_bucket{le="2",method="Put",code="OK"} 1
call_seconds_bucket{le="+Inf",method="Put",code="OK"} 1
call_seconds_sum{method="Put",code="OK"} 2
call_seconds_count{method="Put",code="OK"} 1

# HELP never_observed Nothing.
# TYPE never_observed histogram
`,
  );
});

test('whatever the labels, texts and figures are, a reader that knows the format reads the same', async () => {
  const anyText = fc.string({ unit: fc.constantFrom('\\', '"', '\n', 'n', '{', '}', '=', ',', ' ', '#', 'ä', '\r') });
  const sample = fc.record({
    labels: fc.record({ a: anyText, b: anyText }, { noNullPrototype: true }),
    value: fc.double(),
  });
  const metric = fc.record({ help: anyText, samples: fc.array(sample, { maxLength: 3 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(metric, { maxLength: 3 }), async (wanted) => {
      const text = await exposition(wanted.map(({ help, samples }, i) => gauge(`metric_${i}`, help, samples)));
      // The format knows neither a negative zero nor which NaN it was.
      const shown = wanted.map(({ help, samples }, i) => ({
        name: `metric_${i}`,
        help,
        type: 'gauge',
        samples: samples.map(({ labels, value }) => ({ name: `metric_${i}`, labels, value: value + 0 })),
      }));
      assert.deepEqual(read(text), shown);
    }),
  );
});

interface ReadMetric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly samples: { readonly name: string; readonly labels: object; readonly value: number }[];
}

/** Reads the text format strictly: what is not in its grammar fails. */
function read(text: string): readonly ReadMetric[] {
  assert.ok(text.endsWith('\n'));
  const metrics: ReadMetric[] = [];
  const lines = text.slice(0, -1).split('\n').values();
  for (const line of lines) {
    if (line === '') continue;
    const [, name = '', help = ''] = /^# HELP ([a-zA-Z_:][\w:]*) ((?:[^\\]|\\[\\n])*)$/su.exec(line) ?? [];
    if (name === '') {
      metrics.at(-1)?.samples.push(readSample(line));
      continue;
    }
    const [, type = ''] = new RegExp(`^# TYPE ${name} (counter|gauge|histogram)$`).exec(lines.next().value ?? '') ?? [];
    assert.ok(type, `${name} has no type`);
    metrics.push({ name, help: unescape(help), type, samples: [] });
  }
  return metrics;
}

function readSample(line: string): ReadMetric['samples'][number] {
  const label = String.raw`[a-zA-Z_]\w*="(?:[^\\"]|\\[\\n"])*"`;
  const value = String.raw`[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|NaN|[-+]Inf`;
  const sample = new RegExp(`^([a-zA-Z_:][\\w:]*)(?:\\{(${label}(?:,${label})*)\\})? (${value})$`, 'su').exec(line);
  assert.ok(sample, `not a sample: ${line}`);
  const [, name = '', labels = '', figure = ''] = sample;
  const each = [...labels.matchAll(/(\w+)="((?:[^\\"]|\\.)*)"/gsu)];
  return {
    name,
    labels: Object.fromEntries(each.map(([, key = '', text = '']) => [key, unescape(text)])),
    value: Number(figure.replace('Inf', 'Infinity')),
  };
}

function unescape(text: string): string {
  return text.replace(/\\([\\n"])/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
}
