import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Turn } from './turn.ts';

const { signal } = new AbortController();

async function line(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-turn-'));
  t.after(() => rm(directory, { recursive: true }));
  return join(directory, 'line');
}

test('the first in line has its turn at once, and the next one when the first has ended', async (t) => {
  const directory = await line(t);
  const first = await Turn.take(directory);
  assert.equal(await first.hasCome(signal), true);
  const second = await Turn.take(directory);
  assert.equal(await second.hasCome(signal), false);

  let isSecond = false;
  const comes = second.comes(signal).then(() => {
    isSecond = true;
  });
  assert.equal(await second.hasCome(signal), false);
  assert.equal(isSecond, false);
  first.end();
  await comes;
  assert.equal(await second.hasCome(signal), true);
  second.end();
  assert.deepEqual(await readdir(directory), [], 'nothing is left');
});

test('nobody waits for a killed process, and its leftovers are removed', async (t) => {
  const directory = await line(t);
  const script = `
    const { Turn } = await import(${JSON.stringify(join(import.meta.dirname, 'turn.ts'))});
    await Turn.take(${JSON.stringify(directory)});
    console.log('taken');
    setInterval(() => undefined, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  const [left] = await readdir(directory);
  const turn = await Turn.take(directory);
  t.after(() => turn.end());
  assert.equal(await turn.hasCome(signal), false);
  const comes = turn.comes(signal);
  child.kill('SIGKILL');
  await comes;
  assert.ok(left && !(await readdir(directory)).includes(left), `${left} is removed`);
});

test('a process that stops waiting leaves the line', async (t) => {
  const directory = await line(t);
  const first = await Turn.take(directory);
  const impatient = await Turn.take(directory);
  const third = await Turn.take(directory);
  t.after(() => third.end());
  const leave = new AbortController();
  const waiting = impatient.comes(leave.signal);
  const comes = third.comes(signal);
  leave.abort(new Error('stop waiting'));
  await assert.rejects(waiting, { message: 'stop waiting' });
  impatient.end();
  assert.equal(await third.hasCome(signal), false);
  first.end();
  await comes;
});

test('only one at a time has its turn, however many come and leave at once', async (t) => {
  const directory = await line(t);
  let working = 0;
  let most = 0;
  let done = 0;
  const work = async () => {
    const turn = await Turn.take(directory);
    await turn.comes(signal);
    most = Math.max(most, ++working);
    await new Promise((resolve) => setImmediate(resolve));
    working--;
    done++;
    turn.end();
  };
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let round = 0; round < 10; round++) await work();
    }),
  );
  assert.deepEqual({ most, done }, { most: 1, done: 80 });
});
