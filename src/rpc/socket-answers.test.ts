import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { nobodyListens, untilClosed, whyNoAnswer } from './socket-answers.ts';

const { signal } = new AbortController();

async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'moorage-socket-'));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

test('nobody listens on a missing socket or on the socket of a dead process', async (t) => {
  const path = join(await directory(t), 'socket');
  assert.equal(await nobodyListens(path), true);
  assert.equal(await whyNoAnswer(path), 'ENOENT');
  await writeFile(path, '');
  assert.equal(await nobodyListens(path), true);
  assert.equal(await whyNoAnswer(path), 'ECONNREFUSED');
  await untilClosed(path, signal);
});

test('waiting for a listener ends with the listener or with the signal', async (t) => {
  const path = join(await directory(t), 'socket');
  const server = createServer((connection) => connection.resume());
  server.listen(path);
  t.after(() => server.close());
  await once(server, 'listening');
  assert.equal(await nobodyListens(path), false);
  const connected = once(server, 'connection');
  const closed = untilClosed(path, signal);
  const [connection] = await connected;
  connection.destroy();
  await closed;
  await assert.rejects(untilClosed(path, AbortSignal.abort(new Error('enough'))), { message: 'enough' });
});

test('a socket that cannot be reached does not mean that nobody listens', async (t) => {
  const path = join(await directory(t), 'x'.repeat(200));
  await assert.rejects(nobodyListens(path), {
    name: 'ListenerUnknown',
    message: /cannot determine whether .* serves .*: connect E\w+/,
  });
  await assert.rejects(untilClosed(path, signal), { name: 'ListenerUnknown' });
});
