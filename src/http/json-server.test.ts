import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { InvalidInput } from '../base/errors.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { type Answer, JsonServer } from './json-server.ts';

async function serving(t: TestContext, answers: Readonly<Record<string, Answer>>) {
  const server = new JsonServer({ server: createServer(), address: '127.0.0.1:0', answers, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  return async (path: string, body?: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', ...(body && { body }) });
    return { status: response.status, text: await response.text(), type: response.headers.get('content-type') };
  };
}

test('JSON is answered with JSON, and a string is sent as text', async (t) => {
  const ask = await serving(t, { '/double': (body) => [body, body], '/status': () => 'ok' });
  assert.deepEqual(await ask('/double?timeout=10s', '{"a":1}'), {
    status: 200,
    text: '[{"a":1},{"a":1}]',
    type: 'application/json',
  });
  assert.deepEqual(await ask('/status'), { status: 200, text: 'ok', type: 'text/plain' });
});

test('an idle connection is kept longer than clients in Go keep it, so that no request meets its end', async (t) => {
  const http = createServer();
  const server = new JsonServer({ server: http, address: '127.0.0.1:0', answers: { '/': () => [] }, log: silentLog });
  const { port } = await server.listen();
  t.after(() => server.stop());
  const { headers } = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST' });
  const [, seconds] = /timeout=(\d+)/.exec(headers.get('keep-alive') ?? '') ?? [];
  assert.ok(Number(seconds) > 90, `${seconds} s`);
});

test('an error is answered with its message', async (t) => {
  const ask = await serving(t, {
    '/refuse': () => {
      throw new InvalidInput('pod is missing; send it');
    },
    '/break': () => {
      throw new Error('broken');
    },
    '/take': () => [],
  });
  const wrong = async (path: string, body: string) => {
    const { status, text } = await ask(path, body);
    return [status, text];
  };
  assert.deepEqual(await wrong('/refuse', '{}'), [400, 'pod is missing; send it\n']);
  assert.deepEqual(await wrong('/break', '{}'), [500, 'broken\n']);
  assert.deepEqual(await wrong('/other', '{}'), [404, 'not found; use /refuse or /break or /take\n']);
  const [status, text] = await wrong('/take', '{"half":');
  assert.equal(status, 400);
  assert.match(String(text), /^the body is not JSON: .*; send a JSON object\n$/);
});

test('a body beyond ten mebibytes is not read', async (t) => {
  const ask = await serving(t, { '/take': () => 'taken' });
  const bodyOf = (bytes: number) => JSON.stringify('x'.repeat(bytes - 2));
  assert.equal((await ask('/take', bodyOf(10 << 20))).status, 200);
  assert.equal((await ask('/take', bodyOf((10 << 20) + 1))).status, 413);
  assert.equal((await ask('/take', '1')).text, 'taken', 'it keeps serving');
});
