import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { MessageChannel } from 'node:worker_threads';
import { InvalidInput } from '../../base/errors.ts';
import { type Methods, ThreadCalls } from './thread-calls.ts';

interface MethodsOfTest extends Methods {
  double(number: number): Promise<number>;
  refuse(why: string): Promise<void>;
  wait(nothing: undefined, signal: AbortSignal): Promise<void>;
}

function connected(t: TestContext, methods: MethodsOfTest = methodsOfTest) {
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  const calls = new ThreadCalls<MethodsOfTest>(port1, {});
  return { calls, others: new ThreadCalls(port2, methods) };
}

const methodsOfTest: MethodsOfTest = {
  double: async (number) => 2 * number,
  refuse: async (why) => {
    throw new InvalidInput(why);
  },
  wait: async (_, signal) => void (await once(signal, 'abort')),
};

test('calls return what the other thread returns, in any order', async (t) => {
  const { calls } = connected(t);
  assert.deepEqual(await Promise.all([1, 2, 3].map((number) => calls.call('double', number))), [2, 4, 6]);
});

test('an error arrives with its name, code and message', async (t) => {
  const { calls } = connected(t);
  const expected = { name: 'InvalidInput', code: 'InvalidArgument', message: 'too long' };
  await assert.rejects(calls.call('refuse', 'too long'), expected);
});

test('a caller that leaves aborts the call in the other thread', async (t) => {
  const aborted = Promise.withResolvers<void>();
  const wait = async (_: undefined, signal: AbortSignal) => {
    await once(signal, 'abort');
    aborted.resolve();
    throw new Error('stopped');
  };
  const { calls } = connected(t, { ...methodsOfTest, wait });
  const leaving = new AbortController();
  const call = calls.call('wait', undefined, leaving.signal);
  leaving.abort(new Error('the caller left'));
  await assert.rejects(call, /the caller left/);
  await aborted.promise;
});

test('when the other thread is gone, all who wait for it are told', async (t) => {
  const { calls } = connected(t);
  const waiting = calls.call('wait', undefined);
  calls.close(new Error('the thread ended'));
  await assert.rejects(waiting, /the thread ended/);
  await assert.rejects(calls.call('double', 1), /the thread ended/);
});
