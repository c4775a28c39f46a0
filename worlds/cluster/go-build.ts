import { createInterface } from 'node:readline';
import { downloadEnvironment } from '../host/environment.ts';
import { execute, spawn } from '../host/processes.ts';
import { duration, type Say } from '../host/progress.ts';

/** No -trimpath: it would keep the builds of two modules from sharing a cache. */
const goEnvironment = { GOFLAGS: '-buildvcs=false', CGO_ENABLED: '0', GOTOOLCHAIN: 'local' };

export interface GoProgram {
  /** The directory of the module. */
  readonly module: string;
  /** The main package, relative to the module. */
  readonly package: string;
  readonly output: string;
  /** Values set at link time, keyed by the full name of the variable. */
  readonly variables: Readonly<Record<string, string>>;
}

/** Compiles a Go program, and reports progress and remaining time. */
export async function goBuild(program: GoProgram, say: Say): Promise<void> {
  const options = { cwd: program.module, env: { ...downloadEnvironment(), ...goEnvironment }, maxBuffer: 64 << 20 };
  say('fetching modules');
  await execute('go', ['mod', 'download'], options);
  say('listing packages to compile');
  const todo = await stalePackages(program.package, options);
  const total = sum(todo.values());
  const started = performance.now();
  let compiled = 0;

  const variables = Object.entries(program.variables).map(([name, value]) => `-X ${name}=${value}`);
  const args = ['build', '-v', '-ldflags', ['-s', '-w', ...variables].join(' '), '-o', program.output, program.package];
  const build = spawn('nice', ['go', ...args], { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
  const others: string[] = [];
  for await (const line of createInterface({ input: build.stderr })) {
    const files = todo.get(line);
    if (files === undefined) {
      others.push(line);
      continue;
    }
    compiled += files;
    const left = ((performance.now() - started) / compiled) * (total - compiled);
    say(`${Math.floor((100 * compiled) / total)} %, about ${duration(left)} left, compiling ${line}`);
  }
  const code = build.exitCode ?? (await new Promise<number | null>((resolve) => build.once('exit', resolve)));
  if (code !== 0) throw new Error(`go build of ${program.package} failed:\n${others.slice(-20).join('\n')}`);
}

/** The source directory of a module that `from` requires. */
export async function moduleDir(from: string, name: string): Promise<string> {
  const options = { cwd: from, env: { ...downloadEnvironment(), ...goEnvironment } };
  await execute('go', ['mod', 'download', name], options);
  return (await execute('go', ['list', '-m', '-f', '{{.Dir}}', name], options)).stdout.trim();
}

/** Every package that is not in Go's cache, with the number of its files as an estimate of its work. */
async function stalePackages(name: string, options: object): Promise<Map<string, number>> {
  const format = '{{if .Stale}}{{.ImportPath}} {{len .GoFiles}}{{end}}';
  const { stdout } = await execute('go', ['list', '-deps', '-f', format, name], options);
  const lines = stdout.split('\n').filter(Boolean);
  return new Map(lines.map((line) => [line.split(' ')[0] ?? '', Number(line.split(' ')[1]) || 1]));
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
