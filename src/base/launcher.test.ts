import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { isAlive } from '../../worlds/host/is-alive.ts';
import { run } from './exec.ts';
import { Launcher } from './launcher.ts';
import { ManualClock } from './testing/manual-clock.ts';

const timeoutMs = 60_000;

const { env } = process;
const clock = new ManualClock();
const launcher = new Launcher({ env, clock });

/** The shell that starts a command is its parent. */
async function shellOf(launcher: Launcher): Promise<number> {
  return Number((await launcher.run(['sh', '-c', 'echo $PPID'], { timeoutMs })).stdout);
}

/** The output of the script, which has a `launcher`, in a process that does nothing else. */
async function alone(script: string): Promise<string> {
  const start = `
    import { openSync, readdirSync } from 'node:fs';
    import { setImmediate as nextTurn } from 'node:timers/promises';
    import { Launcher } from ${JSON.stringify(import.meta.resolve('./launcher.ts'))};
    import { ManualClock } from ${JSON.stringify(import.meta.resolve('./testing/manual-clock.ts'))};
    const launcher = new Launcher({ env: process.env, clock: new ManualClock() });`;
  const node = [process.execPath, '--input-type=module', '--eval', `${start}\n${script}`] as const;
  return (await run(['sh', '-c', 'ulimit -n 100; exec "$@"', 'sh', ...node], { timeoutMs })).stdout.trim();
}

test('arguments reach the command unchanged, and the shell interprets none', async () => {
  const any = fc.string({ unit: 'binary' }).map((word) => word.replaceAll('\0', ''));
  const hostile = fc.constantFrom("'", "'; id '", '$(id)', '`id`', '$HOME', '\n', '\\', '*', '~', '#', '!', '&', '');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(any, hostile)), async (words) => {
      const command = ['sh', '-c', 'for word; do printf "%s\\0" "$word"; done', 'sh', ...words] as const;
      const { stdout } = await launcher.run(command, { timeoutMs });
      assert.deepEqual(stdout.split('\0').slice(0, -1), words);
    }),
  );
});

test('an argument with a NUL byte starts nothing', async () => {
  await assert.rejects(launcher.run(['echo', 'a\0b'], { timeoutMs }), { code: 'ERR_INVALID_ARG_VALUE' });
});

test('a program runs even if the shell has a builtin of the same name', async () => {
  const { stdout } = await launcher.run(['printf', '--version'], { timeoutMs });
  assert.match(stdout, /coreutils/);
});

test('variables with any value are set for one command only, in the same shell', async () => {
  const any = fc.string({ unit: 'binary' }).map((value) => value.replaceAll('\0', ''));
  const hostile = fc.constantFrom("'", "'; id '", '$(id)', '\n', '\\', '');
  await fc.assert(
    fc.asyncProperty(fc.oneof(any, hostile), async (value) => {
      const before = await shellOf(launcher);
      const command = ['sh', '-c', 'printf "%s" "$LC_ALL"'] as const;
      assert.equal((await launcher.run(command, { timeoutMs, env: { ...env, LC_ALL: value } })).stdout, value);
      assert.equal((await launcher.run(command, { timeoutMs })).stdout, env['LC_ALL'] ?? '');
      assert.equal(await shellOf(launcher), before);
    }),
  );
});

test('an environment that lacks a variable, or has one that no shell can set, works too', async () => {
  const lone = new Launcher({ env: { ...env, SECRET: 'mine' }, clock });
  const printed = async (env: NodeJS.ProcessEnv) => (await lone.run(['env'], { timeoutMs, env })).stdout.split('\n');
  assert.ok((await printed({ ...env, SECRET: 'mine' })).includes('SECRET=mine'));
  assert.ok(!(await printed(env)).some((line) => line.startsWith('SECRET=')));
  assert.ok((await printed({ ...env, SECRET: 'mine', 'a.b': 'c' })).includes('a.b=c'));
  await assert.rejects(printed({ ...env, SECRET: 'a\0b' }), { code: 'ERR_INVALID_ARG_VALUE' });
  lone[Symbol.dispose]();
});

test('one shell starts several commands', async () => {
  assert.equal(await shellOf(launcher), await shellOf(launcher));
});

test('a command that hangs delays no other', async () => {
  const abort = new AbortController();
  const hangs = launcher.run(['sleep', '1000'], { timeoutMs, signal: abort.signal });
  const [one, other] = await Promise.all([shellOf(launcher), shellOf(launcher)]);
  assert.notEqual(one, other);
  abort.abort();
  await assert.rejects(hangs, { name: 'CommandCancelled' });
});

test('a command is killed even before the shell has reported its process ID', async () => {
  const abort = new AbortController();
  const hangs = launcher.run(['sleep', '1000'], { timeoutMs, signal: abort.signal });
  abort.abort(); // nothing can have been reported yet
  await assert.rejects(hangs, { name: 'CommandCancelled' });
});

test('killing a command also kills its shell, and the next command gets another', async () => {
  const lone = new Launcher({ env, clock });
  const before = await shellOf(lone);
  await assert.rejects(lone.run(['sleep', '1000'], { timeoutMs: 1 }), { name: 'CommandTimedOut' });
  assert.equal(isAlive(before), false);
  assert.notEqual(await shellOf(lone), before);
  lone[Symbol.dispose]();
});

test('a lost shell also ends its command, with an error', async () => {
  const lone = new Launcher({ env, clock });
  const shell = await shellOf(lone);
  const command = ['sh', '-c', 'kill -KILL $PPID; sleep 1000'] as const;
  await assert.rejects(lone.run(command, { timeoutMs }), { name: 'LaunchShellLost', code: 'Unavailable' });
  assert.equal(isAlive(shell), false);
  assert.ok(isAlive(await shellOf(lone)), 'the next command gets a new shell');
  lone[Symbol.dispose]();
});

test('idle shells exit after a while', async () => {
  const options = { env, clock: new ManualClock() };
  const lone = new Launcher(options);
  const shell = await shellOf(lone);
  options.clock.advance(20_000);
  assert.equal(await shellOf(lone), shell, 'it waits for more');
  options.clock.advance(29_999);
  assert.ok(isAlive(shell), 'its idle time starts over after each use');
  options.clock.advance(1);
  while (isAlive(shell)) await nextTurn();
  assert.equal(options.clock.timers, 0);
});

test('late output of a process left behind does not reach other commands', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'moorage-launcher-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const fifo = join(directory, 'fifo');
  const lone = new Launcher({ env, clock });
  await lone.run(['mkfifo', fifo], { timeoutMs });
  const shell = await shellOf(lone);
  await lone.run(['sh', '-c', '(read line <"$1"; echo late) &', 'sh', fifo], { timeoutMs });
  await writeFile(fifo, 'go\n');
  while (isAlive(shell)) await nextTurn();
  assert.equal((await lone.run(['echo', 'mine'], { timeoutMs })).stdout, 'mine\n');
  lone[Symbol.dispose]();
});

test('the exit code of the shell is never taken for that of a command that it cannot start', async () => {
  await assert.rejects(launcher.run(['/dev/null'], { timeoutMs }), {
    name: 'CommandNotStarted',
    code: 'Unavailable',
    message: /^cannot start \/dev\/null: .*Permission denied/,
  });
});

test('the error of a command that exits with 127 itself is reported', async () => {
  const command = ['sh', '-c', 'echo a library is missing >&2; exit 127'] as const;
  await assert.rejects(launcher.run(command, { timeoutMs }), {
    name: 'CommandFailed',
    message: /a library is missing$/,
  });
});

test('a killed command is waited for, even if nothing else keeps the process alive', async () => {
  const name = await alone(`
    console.log(await launcher.run(['sleep', '1000'], { timeoutMs: 1 }).catch((error) => error.name));`);
  assert.equal(name, 'CommandTimedOut');
});

test('without free file descriptors only the command fails', async () => {
  const message = await alone(`
    console.log(''); // opens the files that it needs
    try { for (;;) openSync('/dev/null'); } catch {}
    console.log(await launcher.run(['true'], { timeoutMs: ${timeoutMs} }).catch((error) => error.message));`);
  assert.match(message, /^the shell that runs true was lost: .*EMFILE/);
});

test('a daemon that a command left behind keeps none of our files open after its shell has exited', async (t) => {
  const daemon = await alone(`
    const files = () => readdirSync('/proc/self/fd').length;
    console.log(''); // opens the files that it needs
    await launcher.run(['true'], { timeoutMs: ${timeoutMs} });
    const before = files();
    const { stdout } = await launcher.run(['sh', '-c', 'setsid sleep 1000 & echo $!'], { timeoutMs: ${timeoutMs} });
    console.log(stdout);
    launcher[Symbol.dispose]();
    while (files() > before - 4) await nextTurn(); // those of the shell`);
  t.after(() => process.kill(Number(daemon)));
  assert.ok(isAlive(Number(daemon)));
});

test('a disposed launcher keeps no shell', async () => {
  const options = { env, clock: new ManualClock() };
  const lone = new Launcher(options);
  const lastOne = shellOf(lone);
  lone[Symbol.dispose]();
  const shell = await lastOne;
  assert.equal(options.clock.timers, 0);
  while (isAlive(shell)) await nextTurn();
});
