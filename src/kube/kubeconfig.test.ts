import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { contextNamesOf, contextOf, currentContext } from './kubeconfig.ts';

const config = (cluster: object = {}, user: object = {}) => ({
  'current-context': 'home',
  contexts: [
    { name: 'away', context: { cluster: 'far', user: 'me' } },
    { name: 'home', context: { cluster: 'near', user: 'me' } },
  ],
  clusters: [
    { name: 'far', cluster: { server: 'https://far:6443' } },
    { name: 'near', cluster: { server: 'https://near:6443', ...cluster } },
  ],
  users: [{ name: 'me', user }],
});

const read = (content: object) => currentContext({ path: 'config', text: stringify(content) });

test('the current context selects cluster and user, and unknown fields are ignored', () => {
  const { cluster, user } = read(config({ 'tls-server-name': 'kubernetes', extensions: [] }, { token: 't' }));
  assert.equal(cluster.server, 'https://near:6443');
  assert.equal(cluster['tls-server-name'], 'kubernetes');
  assert.equal(user.token, 't');
});

test('an unusable or insecure kubeconfig is refused with a remedy', () => {
  const refused: [object, RegExp][] = [
    [{ ...config(), 'current-context': '' }, /config has no current-context; choose one/],
    [{ ...config(), 'current-context': 'work' }, /config has no context named work; there are: away, home/],
    [{ ...config(), users: [] }, /config has no user named me; there are: none/],
    [{ ...config(), clusters: 'near' }, /config is not a valid kubeconfig: clusters must be of type Array$/],
    [config({ server: 'http://near' }), /names the server http:\/\/near; use an https:/],
    [config({ 'insecure-skip-tls-verify': true }), /sets insecure-skip-tls-verify; set certificate-authority/],
    [config({ 'proxy-url': 'http://proxy' }), /proxy-url, which is not supported/],
    [config({}, { exec: { command: 'login' } }), /gets its credentials from a command; use a client certificate/],
    [config({}, { username: 'me', password: 'secret' }), /uses a password; use a client certificate/],
  ];
  for (const [content, message] of refused) {
    assert.throws(() => read(content), { code: 'FailedPrecondition', message });
  }
  assert.throws(() => currentContext({ path: 'config', text: '{' }), /config is not YAML/);
});

test('error messages do not quote values, which may be secrets', () => {
  const silent = (error: unknown) => error instanceof Error && !error.message.includes('270367');
  assert.throws(() => read(config({}, { token: 270367 })), silent);
  assert.throws(() => currentContext({ path: 'config', text: 'token: "270367' }), silent);
});

test('of several files the first that has a name wins, and a context can be named', () => {
  const first = { contexts: [{ name: 'work', context: { cluster: 'near', user: 'me', namespace: 'db' } }] };
  const files = [
    { path: 'a', text: stringify(first) },
    { path: 'b', text: stringify(config({}, { exec: { command: 'login' } })) },
  ];
  const { cluster, user, namespace, clusterFile, userFile } = contextOf(files, 'work');
  assert.deepEqual([cluster.server, user.exec?.command, namespace], ['https://near:6443', 'login', 'db']);
  assert.deepEqual([clusterFile, userFile], ['b', 'b']);
  assert.equal(contextOf(files, '').namespace, undefined);
  assert.deepEqual(contextNamesOf(files), ['work', 'away', 'home']);
  assert.throws(() => contextOf(files, 'play'), {
    message: 'a, b has no context named play; there are: work, away, home',
  });
});
