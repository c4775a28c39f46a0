// npm test [PART...]: everything that has to be right, with one summary at the end.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { ensureCsiSanity } from '../test/worlds/cluster/binaries.ts';
import { requireHost } from '../test/worlds/cluster/cluster.ts';
import { ensurePackages } from '../test/worlds/host/packages.ts';
import { duration, heading, stage } from '../test/worlds/host/progress.ts';
import { addResults, messageOfError, nothingRun, readTestOutput, type TestResult } from './test-output.ts';

const home = join(import.meta.dirname, '..');
process.chdir(home);

const parts: Record<string, () => Promise<TestResult>> = {
  check: async () => {
    const commands = [
      ['tsc', '-p', '.'],
      ['oxlint', '--type-aware', '--deny-warnings'],
      ['biome', 'check'],
    ];
    let result = nothingRun;
    for (const command of commands) {
      const { code, output } = await show(command);
      const failures = [{ title: command.join(' '), error: lastLines(output) }];
      result = addResults(result, code === 0 ? { ...nothingRun, passed: 1 } : { ...nothingRun, failed: 1, failures });
    }
    return result;
  },
  // In one process: to start one for each file would take four times as long as the tests.
  unit: () => nodeTests(['src/**/*.test.ts', 'scripts/*.test.ts'], ['--test-isolation=none']),
  native: async () => {
    const packages = ['e2fsprogs', 'xfsprogs', 'btrfs-progs', 'util-linux'];
    await stage('Debian packages for filesystems', (say) => ensurePackages(packages, say));
    await ensureCsiSanity(); // now, as it shows its progress
    return nodeTests(['test/native/*.test.ts', 'test/sanity/*.test.ts'], ['--test-concurrency=1']);
  },
  lvm: async () => {
    await ensureCsiSanity(); // a machine could not build it
    const inside = globSync('test/lvm/*.test.ts').sort();
    const world = await tests([process.execPath, 'test/worlds/lvm/run.ts', '--test-reporter=spec', ...inside]);
    return addResults(world, await nodeTests(['test/lvm/host/*.test.ts'], ['--test-concurrency=2']));
  },
  install: () => nodeTests(['test/image/*.test.ts', 'test/chart/*.test.ts'], ['--test-concurrency=1']),
  cluster: async () => {
    requireHost();
    const client = await nodeTests(['test/kube/*.test.ts'], ['--test-concurrency=2']); // much of it is waiting
    return addResults(client, await nodeTests(['test/cluster/*.test.ts'], ['--test-concurrency=1']));
  },
};

const groups: Record<string, readonly string[]> = {
  unit: ['unit', 'native'],
  lvm: ['lvm'],
  install: ['install'],
  cluster: ['cluster'],
};

const asked = process.argv.slice(2).flatMap((name) => groups[name] ?? fail(`there is no part '${name}'`));
const rows: string[] = [];
let total = nothingRun;
for (const [name, run] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`\n${heading(name)}`);
  const started = performance.now();
  const result = await run().catch((error: unknown): TestResult => {
    console.error(messageOf(error));
    return { ...nothingRun, failed: 1, failures: [{ title: name, error: messageOf(error) }] };
  });
  total = addResults(total, result);
  const time = duration(performance.now() - started);
  rows.push(`${result.failed ? '✗' : '✓'} ${name.padEnd(8)} ${line(result)} in ${time}`);
}
if (total.failures.length > 0) console.log(`\n${heading('failures')}`);
for (const { title, error } of total.failures) console.log(`\n✖ ${title}\n${error}`);
console.log(`\n${heading('summary')}\n${rows.join('\n')}\n`);
// Once more, and in short: the end of the output may be all that anybody sees of it.
for (const { title, error } of total.failures) console.log(`✖ ${title}\n${messageOfError(error)}\n`);
console.log(line(total));
process.exit(total.failed === 0 ? 0 : 1);

async function nodeTests(patterns: readonly string[], flags: readonly string[] = []): Promise<TestResult> {
  return tests([process.execPath, '--test', '--test-reporter=spec', ...flags, ...patterns]);
}

/** Runs something that ends with the totals of Node's test runner, once or several times. */
async function tests(command: readonly string[]): Promise<TestResult> {
  const { code, output } = await show(command);
  const result = readTestOutput(output);
  if (result.passed + result.failed + result.skipped === 0) {
    throw new Error(`${command.join(' ')} ran no test; it said:\n${lastLines(output)}`);
  }
  if (code === 0 || result.failed > 0) return result;
  const failure = { title: `${command.join(' ')} ended with exit code ${code}`, error: lastLines(output) };
  return addResults(result, { ...nothingRun, failed: 1, failures: [failure] });
}

async function show(argv: readonly string[]): Promise<{ code: number; output: string }> {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  child.stdout.setEncoding('utf8');
  let output = '';
  for await (const chunk of child.stdout as AsyncIterable<string>) {
    output += chunk;
    process.stdout.write(chunk);
  }
  const [code] = await exited;
  return { code: code ?? 1, output };
}

function lastLines(output: string): string {
  return output.trimEnd().split('\n').slice(-40).join('\n');
}

function line({ passed, failed, skipped }: TestResult): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

function fail(message: string): never {
  console.error(`npm test: ${message}; the parts are ${Object.keys(groups).join(', ')}`);
  process.exit(2);
}
