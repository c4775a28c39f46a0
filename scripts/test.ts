// npm test [PART...]: all checks and tests, with one summary at the end.
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { ensureCsiSanity, ensureHelm } from '../worlds/cluster/binaries.ts';
import { ensureClusterParts } from '../worlds/cluster/cluster.ts';
import { testEnvironment } from '../worlds/host/environment.ts';
import { ensurePackages } from '../worlds/host/packages.ts';
import { spawn } from '../worlds/host/processes.ts';
import { duration, heading, stage } from '../worlds/host/progress.ts';
import { type Print, Turns } from './output-turns.ts';
import { addResults, messageOfError, nothingRun, readTestOutput, type TestResult } from './test-output.ts';

const home = join(import.meta.dirname, '..');
process.chdir(home);

type Part = (print: Print) => Promise<TestResult>;

/** A cluster that starts meanwhile would copy mounts of the machine, and keep filesystems and loop devices busy until it ends. */
const ownMounts = process.getuid?.() === 0 ? ['unshare', '--mount'] : [];

const parts = {
  check: async (print) => {
    const commands = [
      ['tsc', '-p', '.'],
      ['tsc', '-p', 'web'],
      ['oxlint', '--type-aware', '--deny-warnings'],
      ['biome', 'check'],
      ['node', '--test', 'scripts/layers.test.ts'],
      ['knip', '--no-progress'], // unused files, exports and dependencies
      ['knip', '--no-progress', '--production'], // and those in src/ that only tests use
    ];
    let result = nothingRun;
    for (const command of commands) {
      const { code, output } = await show(command, print);
      const failures = [{ title: command.join(' '), error: lastLines(output) }];
      result = addResults(result, code === 0 ? { ...nothingRun, passed: 1 } : { ...nothingRun, failed: 1, failures });
    }
    return result;
  },
  // In one process: starting one per file would take four times as long as the tests.
  unit: (print) =>
    nodeTests(['src/**/*.test.ts', 'scripts/*.test.ts', 'worlds/**/*.test.ts'], ['--test-isolation=none'], print),
  native: (print) =>
    nodeTests(['test/native/*.test.ts', 'test/sanity/*.test.ts'], ['--test-concurrency=1'], print, ownMounts),
  lvm: async (print) => {
    const inside = globSync('test/lvm/*.test.ts').sort();
    const world = await tests([process.execPath, 'worlds/lvm/run.ts', '--test-reporter=spec', ...inside], print);
    return addResults(world, await nodeTests(['test/lvm/host/*.test.ts'], ['--test-concurrency=2'], print));
  },
  install: (print) => nodeTests(['test/image/*.test.ts', 'test/chart/*.test.ts'], ['--test-concurrency=2'], print),
  kube: (print) => nodeTests(['test/kube/*.test.ts'], ['--test-concurrency=2'], print), // they mostly wait
  cluster: clusterTests,
} satisfies Record<string, Part>;
type Name = keyof typeof parts;

/** They show what is wrong before anything is installed or built. */
const needNothing: ReadonlySet<Name> = new Set(['check', 'unit']);

/** The lists run side by side, because their tests wait most of the time; the parts of a list run one after the other. */
const lanes: readonly (readonly Name[])[] = [
  ['check', 'unit', 'native', 'lvm', 'kube'],
  ['cluster', 'install'],
];

const groups: Record<string, readonly Name[]> = {
  check: ['check'],
  unit: ['unit', 'native'],
  lvm: ['lvm'],
  install: ['install'],
  cluster: ['kube', 'cluster'],
};

const asked = process.argv.slice(2).flatMap((name) => groups[name] ?? fail(`unknown part '${name}'`));
const isAsked = (name: Name) => asked.length === 0 || asked.includes(name);
const prepared = prepare();
prepared.catch(() => undefined); // the parts that need it report it
const rows = new Map<Name, string>();
const turns = new Turns();
const results = await Promise.all(lanes.map((lane) => turns.take((print) => runLane(lane.filter(isAsked), print))));
await turns.end();
const total = results.reduce(addResults);
if (total.failures.length > 0) console.log(`\n${heading('failures')}`);
for (const { title, error } of total.failures) console.log(`\n✖ ${title}\n${error}`);
const inOrder = lanes.flat().flatMap((name) => rows.get(name) ?? []);
console.log(`\n${heading('summary')}\n${inOrder.join('\n')}\n`);
// Repeated in short: the end of the output may be all that anyone sees.
for (const { title, error } of total.failures) console.log(`✖ ${title}\n${messageOfError(error)}\n`);
console.log(line(total));
process.exit(total.failed === 0 ? 0 : 1);

/** Everything that is installed or built once: a test would not show its progress, and a test machine could not build it. */
async function prepare(): Promise<void> {
  if (isAsked('native')) {
    const packages = ['e2fsprogs', 'xfsprogs', 'btrfs-progs', 'util-linux'];
    await stage('Debian packages for filesystems', (say) => ensurePackages(packages, say));
  }
  if (isAsked('native') || isAsked('lvm')) await ensureCsiSanity();
  if (isAsked('install') || isAsked('cluster')) {
    await ensureClusterParts();
    await ensureHelm();
  }
}

async function runLane(names: readonly Name[], print: Print): Promise<TestResult> {
  let all = nothingRun;
  for (const name of names) {
    print(`\n${heading(name)}\n`);
    const started = performance.now();
    const ready = needNothing.has(name) ? Promise.resolve() : prepared;
    const result = await ready
      .then(() => parts[name](print))
      .catch((error: unknown): TestResult => {
        print(`${messageOf(error)}\n`);
        return { ...nothingRun, failed: 1, failures: [{ title: name, error: messageOf(error) }] };
      });
    const time = duration(performance.now() - started);
    rows.set(name, `${result.failed ? '✗' : '✓'} ${name.padEnd(8)} ${line(result)} in ${time}`);
    all = addResults(all, result);
  }
  return all;
}

/**
 * Two clusters at a time, those with the most work first, so that none is left alone at the end. The files that use the shared
 * cluster run one after another on it and clean up.
 */
async function clusterTests(print: Print): Promise<TestResult> {
  const files = globSync('test/cluster/*.test.ts').sort();
  const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
  const isSharing = (file: string) => texts.get(file)?.includes("from './shared-cluster.ts'") ?? false;
  const machines = (file: string) => Number(/nodes: (\d+)/.exec(texts.get(file) ?? '')?.[1] ?? 0);
  const alone = files.filter((file) => !isSharing(file)).toSorted((one, other) => machines(other) - machines(one));
  const waiting = [files.filter(isSharing), ...alone.map((file) => [file])];
  const turns = new Turns(print);
  let result = nothingRun;
  const work = async (worker: number): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const command = [process.execPath, '--test', '--test-reporter=spec', '--test-isolation=none', ...next];
      const env = { NODE_TEST_WORKER_ID: String(worker) }; // chooses the cores of its machines
      const done = await turns.take((own) => tests(command, own, env));
      result = addResults(result, done);
    }
  };
  await Promise.all([0, 1].map(work));
  await turns.end();
  return result;
}

async function nodeTests(
  patterns: readonly string[],
  flags: readonly string[],
  print: Print,
  inside: readonly string[] = [],
): Promise<TestResult> {
  return tests([...inside, process.execPath, '--test', '--test-reporter=spec', ...flags, ...patterns], print);
}

/** Runs a command that prints the totals of Node's test runner, once or several times. */
async function tests(command: readonly string[], print: Print, env: Record<string, string> = {}): Promise<TestResult> {
  const { code, output } = await show(command, print, env);
  const result = readTestOutput(output);
  const ranAny = result.passed + result.failed + result.skipped > 0;
  if (ranAny && (code === 0 || result.failed > 0)) return result;
  const what = ranAny ? `ended with exit code ${code}` : 'ran no test';
  const failure = { title: `${command.join(' ')} ${what}`, error: lastLines(output) };
  return addResults(result, { ...nothingRun, failed: 1, failures: [failure] });
}

/** What the command prints is shown and returned; its errors are only shown. */
async function show(
  argv: readonly string[],
  print: Print,
  env: Record<string, string> = {},
): Promise<{ code: number; output: string }> {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...testEnvironment(), ...env } });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  child.stderr.setEncoding('utf8').on('data', print);
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
