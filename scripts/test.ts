// npm test [PART...]: all checks and tests, with one summary at the end.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { ensureCsiSanity, ensureHelm } from '../worlds/cluster/binaries.ts';
import { ensureClusterParts } from '../worlds/cluster/cluster.ts';
import { ensurePackages } from '../worlds/host/packages.ts';
import { duration, heading, stage } from '../worlds/host/progress.ts';
import { addResults, messageOfError, nothingRun, readTestOutput, type TestResult } from './test-output.ts';

const home = join(import.meta.dirname, '..');
process.chdir(home);

const parts: Record<string, () => Promise<TestResult>> = {
  check: async () => {
    const commands = [
      ['tsc', '-p', '.'],
      ['tsc', '-p', 'web'],
      ['oxlint', '--type-aware', '--deny-warnings'],
      ['biome', 'check'],
      ['knip', '--no-progress'], // unused files, exports and dependencies
      ['knip', '--no-progress', '--production'], // and those in src/ that only tests use
    ];
    let result = nothingRun;
    for (const command of commands) {
      const { code, output } = await show(command);
      const failures = [{ title: command.join(' '), error: lastLines(output) }];
      result = addResults(result, code === 0 ? { ...nothingRun, passed: 1 } : { ...nothingRun, failed: 1, failures });
    }
    return result;
  },
  // In one process: starting one per file would take four times as long as the tests.
  unit: () => nodeTests(['src/**/*.test.ts', 'scripts/*.test.ts', 'worlds/**/*.test.ts'], ['--test-isolation=none']),
  native: async () => {
    const packages = ['e2fsprogs', 'xfsprogs', 'btrfs-progs', 'util-linux'];
    await stage('Debian packages for filesystems', (say) => ensurePackages(packages, say));
    await ensureCsiSanity(); // now, because it shows its progress
    return nodeTests(['test/native/*.test.ts', 'test/sanity/*.test.ts'], ['--test-concurrency=1']);
  },
  lvm: async () => {
    await ensureCsiSanity(); // a test machine could not build it
    const inside = globSync('test/lvm/*.test.ts').sort();
    const world = await tests([process.execPath, 'worlds/lvm/run.ts', '--test-reporter=spec', ...inside]);
    return addResults(world, await nodeTests(['test/lvm/host/*.test.ts'], ['--test-concurrency=2']));
  },
  install: () => nodeTests(['test/image/*.test.ts', 'test/chart/*.test.ts'], ['--test-concurrency=2']),
  cluster: async () => {
    await ensureClusterParts();
    await ensureHelm();
    const [sharing, alone] = clusterFiles();
    const onMachines = async () =>
      addResults(
        await nodeTests(sharing, ['--test-isolation=none']),
        await nodeTests(alone, ['--test-concurrency=2']), // most use one machine, which keeps one core busy
      );
    // The client's tests mostly wait and use no machines; their output follows that of the tests beside them.
    const heldBack: string[] = [];
    const results = await Promise.all([
      onMachines(),
      nodeTests(['test/kube/*.test.ts'], ['--test-concurrency=1'], (text) => void heldBack.push(text)),
    ]);
    process.stdout.write(heldBack.join(''));
    return results.reduce(addResults);
  },
};

const groups: Record<string, readonly string[]> = {
  unit: ['unit', 'native'],
  lvm: ['lvm'],
  install: ['install'],
  cluster: ['cluster'],
};

const asked = process.argv.slice(2).flatMap((name) => groups[name] ?? fail(`unknown part '${name}'`));
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
// Repeated in short: the end of the output may be all that anyone sees.
for (const { title, error } of total.failures) console.log(`✖ ${title}\n${messageOfError(error)}\n`);
console.log(line(total));
process.exit(total.failed === 0 ? 0 : 1);

/** Files that use the shared cluster run one after another in one process and clean up; others have their own cluster. */
function clusterFiles(): [readonly string[], readonly string[]] {
  const files = globSync('test/cluster/*.test.ts').sort();
  const shares = (file: string) => readFileSync(file, 'utf8').includes("from './shared-cluster.ts'");
  return [files.filter(shares), files.filter((file) => !shares(file))];
}

async function nodeTests(
  patterns: readonly string[],
  flags: readonly string[] = [],
  print: Print = printNow,
): Promise<TestResult> {
  return tests([process.execPath, '--test', '--test-reporter=spec', ...flags, ...patterns], print);
}

/** Runs a command that prints the totals of Node's test runner, once or several times. */
async function tests(command: readonly string[], print: Print = printNow): Promise<TestResult> {
  const { code, output } = await show(command, print);
  const result = readTestOutput(output);
  const ranAny = result.passed + result.failed + result.skipped > 0;
  if (ranAny && (code === 0 || result.failed > 0)) return result;
  const what = ranAny ? `ended with exit code ${code}` : 'ran no test';
  const failure = { title: `${command.join(' ')} ${what}`, error: lastLines(output) };
  return addResults(result, { ...nothingRun, failed: 1, failures: [failure] });
}

type Print = (text: string) => void;

function printNow(text: string): void {
  process.stdout.write(text);
}

async function show(argv: readonly string[], print: Print = printNow): Promise<{ code: number; output: string }> {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  child.stdout.setEncoding('utf8');
  let output = '';
  for await (const chunk of child.stdout as AsyncIterable<string>) {
    output += chunk;
    print(chunk);
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
