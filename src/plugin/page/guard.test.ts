import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Asked, refusalOf } from './guard.ts';

const served = { port: 4100, token: 'secret' };
const good: Asked = {
  method: 'GET',
  path: '/api/stream',
  host: '127.0.0.1:4100',
  origin: undefined,
  authorization: 'Bearer secret',
};

test('the page may be read by its own address, and its data with the token', () => {
  for (const asked of [
    good,
    { ...good, host: 'localhost:4100' },
    { ...good, origin: 'http://127.0.0.1:4100' },
    { ...good, path: '/volumes', authorization: undefined },
  ]) {
    assert.equal(refusalOf(asked, served), undefined, JSON.stringify(asked));
  }
});

for (const [what, change, status, reason] of [
  ['another Host, as after DNS rebinding', { host: 'evil.example:4100' }, 403, /invalid Host/],
  ['another port', { host: '127.0.0.1:80' }, 403, /invalid Host/],
  ['no Host', { host: undefined }, 403, /invalid Host/],
  ['a Host that begins like ours', { host: '127.0.0.1:4100.evil.example' }, 403, /invalid Host/],
  ['the Origin of another site', { origin: 'https://evil.example' }, 403, /invalid Origin/],
  ['the Origin of a sandboxed frame', { origin: 'null' }, 403, /invalid Origin/],
  ['an Origin that differs from the Host', { origin: 'http://localhost:4100' }, 403, /invalid Origin/],
  ['a write', { method: 'POST' }, 405, /only be read/],
  ['a preflight', { method: 'OPTIONS' }, 405, /only be read/],
  ['no token', { authorization: undefined }, 401, /invalid token/],
  ['a wrong token', { authorization: 'Bearer secreT' }, 401, /invalid token/],
  ['a shorter token', { authorization: 'Bearer s' }, 401, /invalid token/],
  ['the path of another server', { path: '//[' }, 400, /invalid path/],
  ['a whole address as its path', { path: 'http://127.0.0.1:4100/' }, 400, /invalid path/],
  ['no path', { path: '*' }, 400, /invalid path/],
  ['another Host, even for the page itself', { path: '/', host: 'evil.example' }, 403, /invalid Host/],
] as const) {
  test(`a request with ${what} is refused`, () => {
    const refusal = refusalOf({ ...good, ...change }, served);
    assert.equal(refusal?.status, status);
    assert.match(refusal?.message ?? '', reason);
  });
}
