import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { withSession } from './connect.ts';
import { readNodeNames } from './facts.ts';

/** The error of a request as this user. Nothing is reached before the credentials are known. */
async function refused(user: object): Promise<Error> {
  const kubeconfig = join(await mkdtemp(join(tmpdir(), 'plugin-')), 'config');
  const clusters = [{ name: 'off', cluster: { server: 'https://127.0.0.1:1' } }];
  const contexts = [{ name: 'off', context: { cluster: 'off', user: 'me' } }];
  const users = [{ name: 'me', user }];
  await writeFile(kubeconfig, stringify({ 'current-context': 'off', contexts, clusters, users }));
  const target = { kubeconfig, context: '' };
  const request = withSession(target, process.env, ({ client }) => readNodeNames(client, AbortSignal.timeout(10_000)));
  return request.then(
    () => assert.fail('it was not refused'),
    (error: Error) => error,
  );
}

const exec = (script: string) => ({
  exec: {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: 'sh',
    args: ['-c', script],
    installHint: 'install the login tool',
  },
});

for (const [what, user, reason] of [
  [
    'an auth-provider',
    { 'auth-provider': { name: 'oidc' } },
    /uses an auth-provider, which is not supported; use exec/,
  ],
  ['a command that fails', exec('exit 7'), /from sh: it ended with exit code 7; .*; install the login tool$/],
  ['a command that answers nothing', exec('echo {}'), /from sh: its answer has no status; install the login tool$/],
  [
    'a command that does not exist',
    { exec: { command: 'no-such-login' } },
    /from no-such-login: spawn no-such-login ENOENT/,
  ],
] as const) {
  test(`${what} is refused with the reason`, async () => {
    const error = await refused(user);
    assert.equal(error.name, 'CredentialsUnusable', error.message);
    assert.match(error.message, reason);
  });
}
