import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

/** Runs a program that has `write`, to standard error; it is always killed at the end of the test. */
function start(program: string) {
  const load = `
    import { standardErrorOutput } from '${import.meta.dirname}/log-output.ts';
    const write = standardErrorOutput();
  `;
  const stdio = ['pipe', 'pipe', 'pipe'] as const;
  return spawn(process.execPath, ['--input-type=module', '-e', load + program], { stdio: [...stdio], timeout: 60_000 });
}

test('a slow reader of a pipe gets every line', async () => {
  const child = start(`
    process.stdout.write('started');
    for (let i = 0; i < 400; i++) write(i + 'x'.repeat(2000) + '\\n');
  `);
  await once(child.stdout, 'data');
  const [written, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  const wanted = Array.from({ length: 400 }, (_, i) => `${i}${'x'.repeat(2000)}\n`).join('');
  assert.ok(written === wanted, `${written.length} of ${wanted.length} characters arrived`);
  assert.equal(code, 0);
});

test('a blocked reader does not stop the work, and learns later how many lines are missing', async () => {
  const child = start(`
    for (let i = 0; i < 10_000; i++) write('x'.repeat(1000) + '\\n');
    process.stdout.write('still at work');
    process.stdin.once('data', () => process.stdin.destroy());
  `);
  assert.equal(String(await once(child.stdout, 'data')), 'still at work');
  const lines = createInterface({ input: child.stderr });
  for await (const line of lines) {
    if (line.startsWith('x')) continue;
    assert.match(JSON.parse(line).msg, /^5\d{3} log lines are lost/);
    break;
  }
  child.stdin.write('end');
  child.stderr.resume();
  assert.equal((await once(child, 'exit'))[0], 0);
});

test('a blocked reader does not keep the process from exiting', async () => {
  const child = start("for (let i = 0; i < 10_000; i++) write('x'.repeat(1000));");
  assert.equal((await once(child, 'exit'))[0], 0);
});

test('a reader that is gone does not stop the work', async () => {
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
