import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { connectionFromKubeconfig, connectionInCluster } from './credentials.ts';

async function directory(t: TestContext, files: Record<string, string>): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-credentials-'));
  t.after(() => rm(dir, { recursive: true }));
  for (const [name, content] of Object.entries(files)) await writeFile(join(dir, name), content);
  return dir;
}

function kubeconfig(cluster: object, user: object): string {
  return JSON.stringify({
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://server:6443/', ...cluster } }],
    users: [{ name: 'u', user }],
  });
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

test('in a cluster, the files of the service account are read again after a minute, or when they are refused', async (t) => {
  const dir = await directory(t, { 'ca.crt': 'the CA', token: 'first\n' });
  const clock = new ManualClock();
  const { server, credentials } = await connectionInCluster(
    { host: 'fd00::1', port: '443', serviceAccountDir: dir },
    clock,
  );
  assert.equal(server, 'https://[fd00::1]:443');

  const first = { tls: { ca: 'the CA' }, token: 'first' };
  await writeFile(join(dir, 'token'), 'second');
  assert.deepEqual(await credentials.read(), first);
  clock.advance(60_000);
  assert.deepEqual(await credentials.read(), { ...first, token: 'second' });
  await writeFile(join(dir, 'ca.crt'), 'another CA');
  credentials.refused(true);
  assert.deepEqual(await credentials.read(), { tls: { ca: 'another CA' }, token: 'second' });
});

test('in a cluster without a token, the start fails', async (t) => {
  const dir = await directory(t, { 'ca.crt': 'the CA' });
  const place = { host: '10.0.0.1', port: '443', serviceAccountDir: dir };
  await assert.rejects(connectionInCluster(place, new ManualClock()), {
    code: 'FailedPrecondition',
    message: /cannot read the token: ENOENT/,
  });
});

test('a kubeconfig can have certificates inline or in files next to it', async (t) => {
  const inside = kubeconfig(
    { 'certificate-authority-data': base64('CA'), 'tls-server-name': 'kubernetes' },
    { 'client-certificate-data': base64('cert'), 'client-key-data': base64('key') },
  );
  const beside = kubeconfig(
    { 'certificate-authority': 'ca.crt' },
    { 'client-certificate': 'me.crt', 'client-key': 'me.key' },
  );
  const dir = await directory(t, { inside, beside, 'ca.crt': 'CA', 'me.crt': 'cert', 'me.key': 'key' });
  const clock = new ManualClock();
  const tls = { ca: 'CA', cert: 'cert', key: 'key' };
  const { server, credentials } = await connectionFromKubeconfig(join(dir, 'inside'), clock);
  assert.equal(server, 'https://server:6443');
  assert.deepEqual(await credentials.read(), { tls: { ...tls, serverName: 'kubernetes' } });
  const other = await connectionFromKubeconfig(join(dir, 'beside'), clock);
  assert.deepEqual(await other.credentials.read(), { tls });

  await writeFile(join(dir, 'me.crt'), 'renewed');
  other.credentials.refused(true);
  assert.deepEqual(await other.credentials.read(), { tls: { ...tls, cert: 'renewed' } });
});

test('a kubeconfig can have a token or a token file', async (t) => {
  const dir = await directory(t, {
    fixed: kubeconfig({}, { token: 'fixed' }),
    file: kubeconfig({}, { tokenFile: 'token', token: 'not this one' }),
    token: 'from the file',
  });
  const tokenOf = async (name: string) => {
    const { credentials } = await connectionFromKubeconfig(join(dir, name), new ManualClock());
    return (await credentials.read()).token;
  };
  assert.equal(await tokenOf('fixed'), 'fixed');
  assert.equal(await tokenOf('file'), 'from the file');
});

test('a certificate without its key is refused', async (t) => {
  const dir = await directory(t, { config: kubeconfig({}, { 'client-certificate-data': base64('cert') }) });
  const path = join(dir, 'config');
  await assert.rejects(
    connectionFromKubeconfig(path, new ManualClock()),
    /only one of client-certificate and client-key/,
  );
});
