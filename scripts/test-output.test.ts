import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heading } from '../worlds/host/progress.ts';
import { addResults, messageOfError, nothingRun, readTestOutput } from './test-output.ts';

const failing = `▶ volumes
  ✔ grow (1.2ms)
  ✖ shrink (3.4ms)
✖ volumes (5ms)
ℹ tests 3
ℹ suites 1
ℹ pass 1
ℹ fail 1
ℹ cancelled 1
ℹ skipped 2
ℹ todo 0
ℹ duration_ms 12

✖ failing tests:

test at test/volumes.test.ts:3:1
✖ shrink (3.4ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

  1 !== 2

      at TestContext.<anonymous> (file:///test/volumes.test.ts:3:32) {
    code: 'ERR_ASSERTION'
  }

test at test/volumes.test.ts:9:1
✖ never
  'test did not finish before its parent and was cancelled'
`;

const passing = '✔ all is well (1ms)\nℹ tests 1\nℹ pass 1\nℹ fail 0\nℹ cancelled 0\nℹ skipped 0\n';

test('a run has totals, and each failure has its name, location and full error', () => {
  const { passed, failed, skipped, failures } = readTestOutput(failing);
  assert.deepEqual({ passed, failed, skipped }, { passed: 1, failed: 2, skipped: 2 });
  assert.deepEqual(
    failures.map(({ title }) => title),
    ['shrink (test/volumes.test.ts:3:1)', 'never (test/volumes.test.ts:9:1)'],
  );
  assert.match(failures[0]?.error ?? '', /^ {2}AssertionError[^]*code: 'ERR_ASSERTION'\n {2}\}$/);
  assert.equal(failures[1]?.error, "  'test did not finish before its parent and was cancelled'");
});

test('each of several files has its own failures', () => {
  const output = [heading('first'), failing, heading('second'), passing, heading('third'), failing].join('\n');
  const { passed, failed, failures } = readTestOutput(output);
  assert.deepEqual([passed, failed, failures.length], [3, 4, 4]);
  assert.doesNotMatch(failures[1]?.error ?? '', /all is well/);
});

test('a run without totals has run nothing', () => {
  assert.deepEqual(readTestOutput('out of memory'), nothingRun);
  assert.deepEqual(addResults(nothingRun, readTestOutput(passing)), { ...nothingRun, passed: 1 });
});

test('only the message of an error is shown, truncated and without its stack', () => {
  const [failure] = readTestOutput(failing).failures;
  assert.match(messageOfError(failure?.error ?? ''), /1 !== 2\n*$/);
  assert.equal(
    messageOfError(Array.from({ length: 50 }, (_, line) => `line ${line}`).join('\n'), 2),
    'line 0\nline 1\n…',
  );
});
