import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

/** Runs a program that has `write`, writeToStandardError; killed in the end, however the test goes. */
function start(program: string) {
  const load = `import { writeToStandardError as write } from '${import.meta.dirname}/log-output.ts';`;
  const stdio = ['pipe', 'pipe', 'pipe'] as const;
  return spawn(process.execPath, ['--input-type=module', '-e', load + program], { stdio: [...stdio], timeout: 60_000 });
}

test('a slow reader of a pipe that does not block gets every line', async () => {
  // That Node looked at its own stream is what makes the pipe one that does not block.
  const child = start(`
    process.stderr.isTTY;
    const { readFileSync } = await import('node:fs');
    process.stdout.write(readFileSync('/proc/self/fdinfo/2', 'utf8'));
    for (let i = 0; i < 2000; i++) write(i + 'x'.repeat(2000) + '\\n');
  `);
  const [info] = await once(child.stdout, 'data');
  const nonBlocking = 0o4000;
  assert.ok(Number.parseInt(/flags:\s+(\d+)/.exec(String(info))?.[1] ?? '', 8) & nonBlocking);
  const [written, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  const wanted = Array.from({ length: 2000 }, (_, i) => `${i}${'x'.repeat(2000)}\n`).join('');
  assert.ok(written === wanted, `of ${wanted.length} characters, ${written.length} came`);
  assert.equal(code, 0);
});

test('a reader that has gone does not stop the work', async () => {
  const child = start(`
    process.stdin.once('data', () => {
      write('nobody reads this');
      write('nor this');
      process.stdout.write('still at work');
      process.exit();
    });
  `);
  child.stderr.destroy();
  await once(child.stderr, 'close');
  child.stdin.write('go');
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  assert.deepEqual([said, code], ['still at work', 0]);
});
