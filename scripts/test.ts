// npm test [PART...]: everything that has to be right, with one summary at the end.
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { ensureCsiSanity } from '../test/worlds/cluster/binaries.ts';
import { requireHost } from '../test/worlds/cluster/cluster.ts';
import { ensurePackages } from '../test/worlds/host/packages.ts';
import { duration, stage } from '../test/worlds/host/progress.ts';

const home = join(import.meta.dirname, '..');
process.chdir(home);

interface Result {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const parts: Record<string, () => Promise<Result>> = {
  check: async () => {
    const commands = [
      ['tsc', '-p', '.'],
      ['oxlint', '--type-aware', '--deny-warnings'],
      ['biome', 'check'],
    ];
    let result: Result = { passed: 0, failed: 0, skipped: 0 };
    for (const command of commands) {
      const ok = (await show(command)).code === 0;
      result = add(result, { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 });
    }
    return result;
  },
  unit: () => nodeTests(['src/**/*.test.ts']),
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
    return add(world, await nodeTests(['test/lvm/host/*.test.ts'], ['--test-concurrency=2']));
  },
  install: () => nodeTests(['test/image/*.test.ts', 'test/chart/*.test.ts'], ['--test-concurrency=1']),
  cluster: async () => {
    requireHost();
    const client = await nodeTests(['test/kube/*.test.ts'], ['--test-concurrency=2']); // much of it is waiting
    return add(client, await nodeTests(['test/cluster/*.test.ts'], ['--test-concurrency=1']));
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
let total: Result = { passed: 0, failed: 0, skipped: 0 };
for (const [name, run] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`\n── ${name} ${'─'.repeat(70 - name.length)}`);
  const started = performance.now();
  let remark = '';
  const result = await run().catch((error: unknown): Result => {
    remark = messageOf(error);
    console.error(remark);
    return { passed: 0, failed: 1, skipped: 0 };
  });
  total = add(total, result);
  const time = duration(performance.now() - started);
  rows.push(
    `${result.failed ? '✗' : '✓'} ${name.padEnd(8)} ${line(result)} in ${time}${remark && `: ${remark.split('\n')[0]}`}`,
  );
}
console.log(`\n── summary ${'─'.repeat(63)}\n${rows.join('\n')}\n\n${line(total)}`);
process.exit(total.failed === 0 ? 0 : 1);

async function nodeTests(patterns: readonly string[], flags: readonly string[] = []): Promise<Result> {
  return tests([process.execPath, '--test', '--test-reporter=spec', ...flags, ...patterns]);
}

/** Runs something that ends with the totals of Node's test runner, once or several times. */
async function tests(command: readonly string[]): Promise<Result> {
  const { code, output } = await show(command);
  const count = (what: string) =>
    [...output.matchAll(new RegExp(`^ℹ ${what} (\\d+)$`, 'gm'))].reduce((sum, match) => sum + Number(match[1]), 0);
  const result = { passed: count('pass'), failed: count('fail') + count('cancelled'), skipped: count('skipped') };
  if (result.passed + result.failed + result.skipped === 0) throw new Error(`${command.join(' ')} ran no test`);
  return code !== 0 && result.failed === 0 ? { ...result, failed: 1 } : result;
}

async function show(argv: readonly string[]): Promise<{ code: number; output: string }> {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8');
  let output = '';
  for await (const chunk of child.stdout as AsyncIterable<string>) {
    output += chunk;
    process.stdout.write(chunk);
  }
  const code = child.exitCode ?? (await new Promise<number | null>((resolve) => child.once('exit', resolve)));
  return { code: code ?? 1, output };
}

function add(a: Result, b: Result): Result {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped };
}

function line({ passed, failed, skipped }: Result): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

function fail(message: string): never {
  console.error(`npm test: ${message}; the parts are ${Object.keys(groups).join(', ')}`);
  process.exit(2);
}
