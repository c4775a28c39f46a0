import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyedLock } from './keyed-lock.ts';

const forever = new AbortController().signal;

test('holders of one key run one at a time, in order of arrival', async () => {
  const lock = new KeyedLock();
  const steps: string[] = [];
  const visit = (name: string) =>
    lock.run('vg', forever, async () => {
      steps.push(`${name} in`);
      await Promise.resolve();
      steps.push(`${name} out`);
    });
  await Promise.all([visit('a'), visit('b'), visit('c')]);
  assert.deepEqual(steps, ['a in', 'a out', 'b in', 'b out', 'c in', 'c out']);
});

test('different keys do not wait for each other', async () => {
  const lock = new KeyedLock();
  const slow = Promise.withResolvers<void>();
  const first = lock.run('a', forever, () => slow.promise);
  assert.equal(await lock.run('b', forever, async () => 'done'), 'done');
  slow.resolve();
  await first;
});

test('the next holder runs after a failure', async () => {
  const lock = new KeyedLock();
  const failing = lock.run('vg', forever, () => Promise.reject(new Error('no')));
  const next = lock.run('vg', forever, async () => 'in');
  await assert.rejects(failing, /no/);
  assert.equal(await next, 'in');
});

test('a waiter that gives up never runs, and later waiters still wait for the holder', async () => {
  const lock = new KeyedLock();
  const slow = Promise.withResolvers<void>();
  const steps: string[] = [];
  const first = lock.run('vg', forever, async () => {
    await slow.promise;
    steps.push('first');
  });
  const abort = new AbortController();
  const second = lock.run('vg', abort.signal, async () => void steps.push('second'));
  const third = lock.run('vg', forever, async () => void steps.push('third'));

  abort.abort();
  await assert.rejects(second, { name: 'AbortError' });
  assert.deepEqual(steps, []);
  slow.resolve();
  await Promise.all([first, third]);
  assert.deepEqual(steps, ['first', 'third']);
});
