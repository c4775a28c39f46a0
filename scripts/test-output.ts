/** The results of one or several runs of Node's test runner, from the output of its `spec` reporter. */
export interface TestResult {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly failures: readonly Failure[];
}

export interface Failure {
  /** The name and the location of the test. */
  readonly title: string;
  /** The full error. */
  readonly error: string;
}

export const nothingRun: TestResult = { passed: 0, failed: 0, skipped: 0, failures: [] };

export function addResults(a: TestResult, b: TestResult): TestResult {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    failures: [...a.failures, ...b.failures],
  };
}

export function readTestOutput(output: string): TestResult {
  const count = (what: string) =>
    [...output.matchAll(new RegExp(`^ℹ ${what} (\\d+)$`, 'gm'))].reduce((sum, match) => sum + Number(match[1]), 0);
  return {
    passed: count('pass'),
    failed: count('fail') + count('cancelled'),
    skipped: count('skipped'),
    failures: readFailures(output),
  };
}

/** The part of an error to read first: the message, truncated and without its stack. */
export function messageOfError(error: string, mostLines = 12): string {
  const lines = error.split('\n');
  const stack = lines.findIndex((line) => /^\s+at .*:\d+:\d+\)?/.test(line));
  const message = stack < 0 ? lines : lines.slice(0, stack);
  return message.length > mostLines ? [...message.slice(0, mostLines), '…'].join('\n') : message.join('\n');
}

/** The reporter repeats failures at the end of each run: location, name and error, indented. */
function readFailures(output: string): Failure[] {
  const runs = output.split(/^✖ failing tests:$/m).slice(1);
  return runs.flatMap((run) => {
    const [list = ''] = run.split(/^── /m); // the heading of the next file
    return list
      .split(/^test at /m)
      .slice(1)
      .map((failure) => {
        const [where = '', name = '', ...error] = failure.trimEnd().split('\n');
        return {
          title: `${name.replace(/^✖ /, '').replace(/ \([\d.]+ms\)$/, '')} (${where})`,
          error: error.join('\n'),
        };
      });
  });
}
