import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isAlive } from '../../worlds/host/is-alive.ts';
import {
  CommandCancelled,
  CommandFailed,
  CommandNotFound,
  CommandPrintedTooMuch,
  CommandTimedOut,
  run as plainRun,
  type Run,
  type RunOptions,
} from './exec.ts';
import { Launcher } from './launcher.ts';
import { ManualClock } from './testing/manual-clock.ts';

const timeoutMs = 60_000;
const sh = (script: string) => ['sh', '-c', script] as const;

const launcher = new Launcher({ env: process.env, clock: new ManualClock() });

// Every test runs for each way to start a command.
const ways = { run: plainRun, 'a launcher': launcher.run };
for (const [way, run] of Object.entries(ways)) {
  describe(way, () => {
    test('a command returns what it printed', async () => {
      assert.deepEqual(await run(sh('echo out; echo err >&2'), { timeoutMs }), { stdout: 'out\n', stderr: 'err\n' });
    });

    test('output that is taken as it arrives is neither limited nor returned', async () => {
      let bytes = 0;
      const onStdout = (piece: Buffer) => {
        bytes += piece.length;
      };
      const output = await run(sh('head -c 3000000 /dev/zero; echo err >&2'), {
        timeoutMs,
        onStdout,
        maxOutputBytes: 10,
      });
      assert.deepEqual([bytes, output], [3_000_000, { stdout: '', stderr: 'err\n' }]);
    });

    test('input is passed on standard input', async () => {
      assert.equal((await run(['cat'], { timeoutMs, input: 'a secret' })).stdout, 'a secret');
    });

    test('a command that does not read its input does not fail', async () => {
      const input = new Uint8Array(1024 * 1024);
      assert.equal((await run(sh('exec <&-; echo done'), { timeoutMs, input })).stdout, 'done\n');
    });

    test('a command gets the given environment and working directory', async () => {
      const env = { PATH: process.env['PATH'], COLOR: 'blue' };
      assert.equal((await run(sh('echo $COLOR; pwd'), { timeoutMs, env, cwd: '/' })).stdout, 'blue\n/\n');
    });

    test('a failure reports the command, its exit code and its output', async () => {
      await assert.rejects(run(sh('echo no such disk >&2; exit 5'), { timeoutMs }), (error: CommandFailed) => {
        assert.ok(error instanceof CommandFailed);
        assert.deepEqual([error.exitCode, error.signal, error.stderr], [5, null, 'no such disk\n']);
        assert.match(error.message, /exit code 5: no such disk$/);
        return true;
      });
    });

    test('a killed command reports the signal', async () => {
      await assert.rejects(run(sh('kill -TERM $$'), { timeoutMs }), { name: 'CommandFailed', signal: 'SIGTERM' });
    });

    test('a missing program is named', async () => {
      await assert.rejects(run(['no-such-program'], { timeoutMs }), (error: Error) => {
        assert.ok(error instanceof CommandNotFound);
        assert.match(error.message, /^no-such-program is not installed/);
        return true;
      });
    });

    test('the deadline kills the whole group, and the command is gone when the error arrives', async (t) => {
      t.mock.timers.enable({ apis: ['setTimeout'] }); // the command is sure to have started before its deadline
      const endless = await startEndless(t, run, { timeoutMs });
      t.mock.timers.tick(timeoutMs);
      await assert.rejects(endless.running, (error: Error) => {
        assert.ok(error instanceof CommandTimedOut);
        assert.equal(error.code, 'DeadlineExceeded');
        return true;
      });
      assert.equal(isAlive(endless.pid), false);
      while (isAlive(endless.childPid)) await nextTurn(); // killed with its parent, but reaped by another process
    });

    test('an abort kills the command and its children', async (t) => {
      const abort = new AbortController();
      const endless = await startEndless(t, run, { timeoutMs, signal: abort.signal });
      abort.abort();
      await assert.rejects(endless.running, (error: Error) => {
        assert.ok(error instanceof CommandCancelled);
        assert.equal(error.code, 'Cancelled');
        return true;
      });
      assert.equal(isAlive(endless.pid), false);
      while (isAlive(endless.childPid)) await nextTurn();
    });

    test('an abort by deadline is reported as DeadlineExceeded', async () => {
      const running = run(['sleep', '1000'], { timeoutMs, signal: AbortSignal.timeout(50) });
      await assert.rejects(running, { name: 'CommandCancelled', code: 'DeadlineExceeded' });
    });

    test('a signal that is already aborted starts nothing', async () => {
      await assert.rejects(run(['no-such-program'], { timeoutMs, signal: AbortSignal.abort() }), {
        name: 'CommandCancelled',
      });
    });

    test('a command that prints too much is killed', async () => {
      await assert.rejects(run(['yes'], { timeoutMs, maxOutputBytes: 100_000 }), (error: Error) => {
        assert.ok(error instanceof CommandPrintedTooMuch);
        assert.match(error.message, /^yes printed more than 97.65 KiB/);
        return true;
      });
    });

    test('all output arrives, however large', async () => {
      const { stdout } = await run(sh('head -c 5000000 /dev/zero'), { timeoutMs });
      assert.equal(stdout.length, 5_000_000);
    });

    test('output is not lost if the exit of the command is noticed first', async () => {
      for (let round = 0; round < 3; round++) {
        const commands = Array.from({ length: 5 }, () => run(['echo', 'last words'], { timeoutMs }));
        // This process is busy while they exit: it then sees their exit and their output at the same moment.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
        for (const { stdout } of await Promise.all(commands)) assert.equal(stdout, 'last words\n');
      }
    });

    test('a daemon that keeps the output open is not waited for', async () => {
      const { stdout } = await run(sh('setsid sleep 1000 & echo $!'), { timeoutMs });
      const daemon = Number(stdout);
      assert.ok(isAlive(daemon), 'a daemon of a successful command is not killed');
      process.kill(daemon, 'SIGKILL');
    });
  });
}

/** A command that never ends, with a child that never ends; both run when this returns. */
async function startEndless(t: TestContext, run: Run, options: RunOptions) {
  const directory = mkdtempSync(join(tmpdir(), 'moorage-exec-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const fifo = join(directory, 'pids');
  await run(['mkfifo', fifo], { timeoutMs });
  const running = run(sh(`sleep 1000 & echo $$ $! >${fifo}; wait`), options);
  running.catch(() => undefined); // the test asserts it later
  const [pid, childPid] = (await readFile(fifo, 'utf8')).split(' ').map(Number);
  assert.ok(pid && childPid);
  return { running, pid, childPid };
}
