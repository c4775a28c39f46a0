import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { CommandCredentials, withSession } from './connect.ts';
import { readNodeNames } from './facts.ts';

/** The error of a request as this user. Nothing is reached before the credentials are known. */
async function refused(user: object): Promise<Error> {
  const kubeconfig = join(await mkdtemp(join(tmpdir(), 'plugin-')), 'config');
  const clusters = [{ name: 'off', cluster: { server: 'https://127.0.0.1:1' } }];
  const contexts = [{ name: 'off', context: { cluster: 'off', user: 'me' } }];
  const users = [{ name: 'me', user }];
  await writeFile(kubeconfig, stringify({ 'current-context': 'off', contexts, clusters, users }));
  const target = { kubeconfig, context: '' };
  const request = withSession(target, process.env, ({ client }) => readNodeNames(client, AbortSignal.timeout(120_000)));
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

test('a command is run again when its answer has expired, was refused, or it failed a while ago', async () => {
  const clock = new ManualClock();
  let runs = 0;
  let isBroken = false;
  const credentials = new CommandCredentials(async () => {
    runs += 1;
    if (isBroken) throw new Error('no network');
    return { credentials: { tls: {}, token: `token-${runs}` }, expiresAtMs: clock.now() + 600_000 };
  }, clock);
  const token = async () => (await credentials.read()).token;
  assert.deepEqual(await Promise.all([token(), token()]), ['token-1', 'token-1']);
  credentials.refused(false);
  assert.equal(await token(), 'token-1', 'a server that is not reached has refused nothing');
  credentials.refused(true);
  assert.equal(await token(), 'token-2');
  clock.advance(600_000);
  isBroken = true;
  await assert.rejects(token(), /no network/);
  isBroken = false;
  await assert.rejects(token(), /no network/, 'not at once');
  clock.advance(30_000);
  assert.equal(await token(), 'token-4');
});
