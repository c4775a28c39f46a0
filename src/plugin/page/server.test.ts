import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { InvalidInput } from '../../base/errors.ts';
import { type Answers, PageServer } from './server.ts';

const html = '<html><style>a{}</style><script type="module">run()</script></html>';
const token = 'secret';
const headers = { authorization: `Bearer ${token}` };

async function serving(t: TestContext, answers: Answers = {}) {
  const readers = new Set<(line: string) => void>();
  const server = new PageServer({
    ...{ html, token, port: 0, answers },
    subscribe(send) {
      readers.add(send);
      send('{"kind":"ready"}\n');
      return () => void readers.delete(send);
    },
  });
  const address = await server.listen();
  t.after(() => server.stop());
  return { server, readers, address, base: address.replace(/\/#.*/, '') };
}

test('the address has the token in its fragment, and the page runs only what is in its file', async (t) => {
  const { address, base } = await serving(t);
  assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/#token=secret$/);
  for (const path of ['/', '/volumes', '/volumes/pvc-1', '/evacuate?node=a']) {
    const response = await fetch(`${base}${path}`);
    assert.equal(await response.text(), html, path);
    const policy = response.headers.get('content-security-policy') ?? '';
    const hash = createHash('sha256').update('run()').digest('base64');
    assert.ok(policy.includes(`script-src 'sha256-${hash}';`), policy);
    assert.match(policy, /^default-src 'none';.*frame-ancestors 'none'/);
    assert.equal(response.headers.get('cache-control'), 'no-store');
  }
  assert.equal((await fetch(`${base}/etc/passwd`)).status, 404);
  assert.equal((await fetch(`${base}/api/none`, { headers })).status, 404);
});

test('a stream sends what its source sends, until the reader leaves', async (t) => {
  const { base, readers } = await serving(t);
  assert.equal((await fetch(`${base}/api/stream`)).status, 401);
  assert.equal(readers.size, 0);
  const leave = new AbortController();
  const { body } = await fetch(`${base}/api/stream`, { headers, signal: leave.signal });
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await reader?.read())?.value, '{"kind":"ready"}\n');
  for (const send of readers) send('more\n');
  assert.equal((await reader?.read())?.value, 'more\n');
  leave.abort();
  await assert.rejects(async () => reader?.read());
  while (readers.size > 0) await new Promise((resolve) => setImmediate(resolve));
});

test('answers are JSON with numbers for sizes, and errors have their reason', async (t) => {
  const { base } = await serving(t, {
    size: async (query) => ({ bytes: 1024n, name: query.get('name') }),
    refuse: async () => {
      throw new InvalidInput('name is missing; pass it in the query');
    },
  });
  const ask = async (path: string) => {
    const response = await fetch(`${base}${path}`, { headers });
    return [response.status, await response.json()];
  };
  assert.deepEqual(await ask('/api/size?name=a'), [200, { bytes: 1024, name: 'a' }]);
  assert.deepEqual(await ask('/api/refuse'), [400, { message: 'name is missing; pass it in the query' }]);
  assert.equal((await fetch(`${base}/api/constructor`, { headers })).status, 404, 'nothing inherited is an answer');
});

/** Sends bytes as they are; the first line of the answer, undefined if there is none. */
async function statusLine(port: number, bytes: string): Promise<string | undefined> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (chunk) => void (answer += chunk));
  socket.on('error', () => {}); // it closes too
  socket.end(bytes, 'latin1');
  await once(socket, 'close');
  return answer.split('\r\n')[0] || undefined;
}

test('the page survives any request', async (t) => {
  const { base } = await serving(t, {
    endless: async () => {
      const cycle = {};
      return Object.assign(cycle, { cycle }); // cannot become JSON
    },
  });
  const { host, port } = new URL(base);
  const head = `Host: ${host}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`;
  const lines: [string, number][] = [
    ['GET //[', 400],
    ['GET //', 400],
    ['GET //evil.example/', 400],
    ['GET http://[/', 400],
    ['GET http:', 400],
    ['GET *', 400],
    ['OPTIONS *', 405],
    ['GET /%', 404],
    ['GET /api/%ff', 404],
    ['GET /api/../api/endless', 404],
    ['GET /api/endless?%=%&&=?=', 502],
    [`GET /${'a'.repeat(20_000)}`, 431],
    ['GET /\u00e9', 400],
    ['GET ', 400],
    ['', 400],
    ['\u0000\u00ff', 400],
  ];
  for (const [line, status] of lines) {
    const found = await statusLine(Number(port), `${line} HTTP/1.1\r\n${head}`);
    assert.match(found ?? '', new RegExp(`^HTTP/1.1 ${status} `), line.slice(0, 100));
  }
  const foreign = await statusLine(Number(port), 'GET //[ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n');
  assert.match(foreign ?? '', / 403 /, 'who asks is checked first');
  await statusLine(Number(port), `CONNECT //[ HTTP/1.1\r\n${head}`);
  await statusLine(Number(port), `GET //[ HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${head}`);
  await statusLine(Number(port), `GET / HTTP/1.1\r\nHost: ${host}\r\nAuthoriz`);
  await statusLine(Number(port), `GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n${head}zz\r\n`);
  assert.equal((await fetch(base)).status, 200);
});

test('the page survives clients that disconnect while it answers them', async (t) => {
  const asked = new EventEmitter();
  const { base, readers } = await serving(t, {
    slow: async (_, signal) => {
      asked.emit('slow');
      await once(signal, 'abort');
      throw new Error('the reader has left');
    },
    late: async (_, signal) => {
      asked.emit('late');
      await once(signal, 'abort');
      return 'nobody is there';
    },
  });
  const { host, port } = new URL(base);
  for (const path of ['slow', 'late', 'stream']) {
    const socket = connect(Number(port), '127.0.0.1');
    const isAsked = path === 'stream' ? once(socket, 'data') : once(asked, path);
    socket.write(`GET /api/${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    await isAsked;
    socket.resetAndDestroy();
    await once(socket, 'close');
    for (const send of readers) send('x'.repeat(1024 ** 2));
  }
  assert.equal((await fetch(base)).status, 200);
});

test('a port that is taken is named', async (t) => {
  const { base } = await serving(t);
  const port = Number(new URL(base).port);
  const second = new PageServer({ html, token, port, answers: {}, subscribe: () => () => {} });
  await assert.rejects(second.listen(), /cannot serve on port \d+: .*EADDRINUSE.*; use another --port/);
});
