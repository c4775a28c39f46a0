import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSchedulerConfig } from './scheduler-config.ts';

test('a configuration file of TopoLVM is read unchanged', () => {
  const { listen, divisors } = parseSchedulerConfig(`
listen: "localhost:8000"
default-divisor: 10
divisors:
  ssd: 5
  hdd: 0.5
profiling-bind-address: ""
`);
  assert.equal(listen, 'localhost:8000');
  assert.deepEqual(
    ['ssd', 'hdd', 'other'].map((name) => divisors.of(name)),
    [5, 0.5, 10],
  );
});

test('an empty file means all defaults', () => {
  for (const text of ['', '{}', '# nothing\n', 'divisors:\n']) {
    const { listen, divisors } = parseSchedulerConfig(text);
    assert.deepEqual([listen, divisors.of('constructor')], [':8000', 1], text);
  }
});

const mistakes: readonly [string, RegExp][] = [
  ['default-divisor: 0', /: default-divisor: must be more than 0$/],
  ['divisors: { ssd: -1, hdd: x }', /: divisors.ssd: must be more than 0; divisors.hdd: must be a number$/],
  ['divisor: 5', /: divisor: is unknown; correct or remove it$/],
  ['some text', /: the file: must be a mapping$/],
  ['listen: 8000', /: listen: must be text$/],
  ['a: [', /: not YAML: /],
];
for (const [text, message] of mistakes) {
  test(`refused: ${text}`, () => assert.throws(() => parseSchedulerConfig(text), { code: 'InvalidArgument', message }));
}
