import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidInput } from '../base/errors.ts';
import { Health, HealthCheckResponse_ServingStatus as Status } from './gen/grpc/health/v1/health_pb.ts';
import type { Implementation } from './server.ts';
import { serving, startServing } from './testing/serving.ts';

const { signal } = new AbortController();

/** Sends SERVING forever; reports when the listener is gone. */
function endless() {
  const ended = Promise.withResolvers<AbortSignal>();
  const implementation: Implementation<typeof Health> = {
    async *watch(_, { signal }) {
      try {
        yield { status: Status.SERVING };
        const abort = Promise.withResolvers<never>();
        signal.addEventListener('abort', () => abort.reject(signal.reason));
        await abort.promise;
      } finally {
        ended.resolve(signal);
      }
    },
  };
  return { implementation, ended: ended.promise };
}

test('a stream delivers its messages in order, and its end', async (t) => {
  const { watch } = await serving(t, Health, {
    async *watch() {
      yield { status: Status.NOT_SERVING };
      yield { status: Status.SERVING };
    },
  });
  const seen: Status[] = [];
  for await (const { status } of watch({}, { signal })) seen.push(status);
  assert.deepEqual(seen, [Status.NOT_SERVING, Status.SERVING]);
});

test('an error ends a stream with its code and message, after earlier messages', async (t) => {
  const { watch } = await serving(t, Health, {
    async *watch() {
      yield { status: Status.SERVING };
      throw new InvalidInput('no more; ask for less');
    },
  });
  const messages = watch({}, { signal })[Symbol.asyncIterator]();
  assert.equal((await messages.next()).value?.status, Status.SERVING);
  await assert.rejects(messages.next(), { code: 'InvalidArgument', message: 'no more; ask for less' });
});

test('a listener that leaves ends the work for its stream', async (t) => {
  const { implementation, ended } = endless();
  const { watch } = await serving(t, Health, implementation);
  for await (const { status } of watch({}, { signal })) {
    assert.equal(status, Status.SERVING);
    break;
  }
  assert.equal((await ended).reason.code, 'Cancelled');
});

test('the signal of a listener ends its stream', async (t) => {
  const { implementation, ended } = endless();
  const { watch } = await serving(t, Health, implementation);
  const abort = new AbortController();
  const messages = watch({}, { signal: abort.signal })[Symbol.asyncIterator]();
  await messages.next();
  abort.abort();
  await assert.rejects(messages.next(), { name: 'AbortError' });
  await ended;
});

test('a server that stops does not wait for listeners', async (t) => {
  const { implementation } = endless();
  const { methods, server } = await startServing(t, Health, implementation);
  const messages = methods.watch({}, { signal })[Symbol.asyncIterator]();
  await messages.next();
  const longMs = 600_000;
  const [stopped] = await Promise.all([
    server.stop(longMs),
    assert.rejects(messages.next(), { code: 'Cancelled', message: /the server is stopping/ }),
  ]);
  assert.equal(stopped, undefined);
});

test('a listener that does not read is not written to without limit', async (t) => {
  const ended = Promise.withResolvers<number>();
  const { watch } = await serving(t, Health, {
    async *watch() {
      let written = 0;
      try {
        for (; ; written++) yield { reason: 'x'.repeat(100_000) };
      } finally {
        ended.resolve(written);
      }
    },
  });
  const messages = watch({}, { signal })[Symbol.asyncIterator]();
  await messages.next();
  await messages.return?.();
  assert.ok((await ended.promise) < 1000);
});
