import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { stringify } from 'yaml';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { selfSigned } from '../../src/http/self-signed.ts';
import { pods } from '../../src/kube/resource.ts';
import { withSession } from '../../src/plugin/connect.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { ensureBinaries } from '../../worlds/cluster/binaries.ts';
import { environment } from '../../worlds/host/environment.ts';
import { execute } from '../../worlds/host/processes.ts';

const { kubectl } = (await ensureBinaries()).kubernetes;
const plugin = kubectlMoorage({ columns: 120, colours: false });
const nowMs = Date.now();
const certificate = await selfSigned({ commonName: 'api', dnsName: 'localhost', nowMs, validForMs: 3_600_000 });

/** A server that refuses every request and remembers it, and a kubeconfig of this user. */
async function recording(t: TestContext, user: object) {
  const requests: IncomingMessage[] = [];
  const server = createServer(certificate, (request, response) => {
    requests.push(request);
    response.writeHead(403, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 403 }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const dir = await mkdtemp(join(tmpdir(), 'moorage-impersonation-'));
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true });
  });
  const kubeconfig = join(dir, 'config');
  const address = {
    server: `https://localhost:${(server.address() as AddressInfo).port}`,
    'certificate-authority-data': Buffer.from(certificate.cert).toString('base64'),
  };
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'it' },
    contexts: [{ name: 'it', context: { cluster: 'it', user: 'me' } }],
    clusters: [{ name: 'it', cluster: address }],
    users: [{ name: 'me', user }],
  };
  await writeFile(kubeconfig, stringify(config));
  const askKubectl = async () => {
    const words = [`--kubeconfig=${kubeconfig}`, 'get', '--raw', '/api'];
    const answer = await execute(kubectl, words, { env: { HOME: dir } }).catch((error: { stderr: string }) => error);
    return answer.stderr;
  };
  return { requests, kubeconfig, askKubectl };
}

/** As they were sent, except for the case of names, and the order of headers with different names, which mean nothing. */
function impersonationOf({ rawHeaders }: IncomingMessage): string[] {
  return rawHeaders
    .flatMap((name, index) => (index % 2 === 0 ? `${name.toLowerCase()}: ${rawHeaders[index + 1]}` : []))
    .filter((header) => header.startsWith('impersonate-'))
    .sort();
}

const exec = {
  exec: {
    apiVersion: 'client.authentication.k8s.io/v1',
    interactiveMode: 'Never',
    command: 'echo',
    args: ['{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'],
  },
};

for (const [whom, user] of [
  ['a user', { token: 't', as: 'jane' }],
  ['a user, with credentials from a command', { ...exec, as: 'jane' }],
  ['a user with a uid', { token: 't', as: 'jane', 'as-uid': '06f6ce97-e2c5' }],
  ['several groups', { token: 't', as: 'system:serviceaccount:a:b', 'as-groups': ['ops', 'a, b', 'Ops', 'ops'] }],
  [
    'a user with odd names and extra fields',
    {
      ...{ token: 't', as: 'jürgen 漢', 'as-groups': ['größe'] },
      'as-user-extra': {
        ...{ scopes: ['view', 'development'], Scopes: ['other case'], none: [], 'example.org/project': ['a'] },
        ...{ '%2f': ['percent'], "!#$&'*+-.^_`|~": ['legal'], 'a b:c(d)"é漢': ['not legal'] },
      },
    },
  ],
  ['nobody', { token: 't', as: '', 'as-uid': '', 'as-groups': [], 'as-user-extra': {} }],
] as const) {
  test(`each request of the plugin impersonates ${whom}, as kubectl's do`, async (t) => {
    const { requests, kubeconfig, askKubectl } = await recording(t, user);
    await askKubectl();
    const wanted = requests.map(impersonationOf);
    assert.deepEqual(
      wanted.map((headers) => headers.length > 0),
      [whom !== 'nobody'],
    );

    requests.length = 0;
    await assert.rejects(runCaptured(plugin, ['volumes', '-A', '--kubeconfig', kubeconfig]));
    await withSession({ kubeconfig, context: '' }, environment(), async ({ client }) => {
      const pod = { namespace: 'a' };
      await assert.rejects(async () => client.watch(pods, {}).next());
      await assert.rejects(client.patch(pods, 'p', { type: 'merge', body: {} }, pod));
      await assert.rejects(client.delete(pods, 'p', pod));
      await assert.rejects(client.log('p', { ...pod, container: 'c', tailLines: 1, limitBytes: 1 }));
    });
    const paths = new Set(requests.map(({ method, url = '' }) => `${method} ${url.split('?')[0]}`));
    for (const path of [
      'GET /apis/topolvm.io/v1/logicalvolumes', // of the command
      'PATCH /api/v1/namespaces/a/pods/p',
      'DELETE /api/v1/namespaces/a/pods/p',
      'GET /api/v1/namespaces/a/pods/p/log',
    ]) {
      assert.ok(paths.has(path), path);
    }
    assert.ok(requests.some(({ url }) => url?.includes('watch=true')));
    for (const request of requests) assert.deepEqual([impersonationOf(request)], wanted, String(request.url));
  });
}

for (const [field, user] of [
  ['as-groups', { 'as-groups': ['ops'] }],
  ['as-uid', { 'as-uid': '1' }],
  ['as-user-extra', { 'as-user-extra': { scopes: ['view'] } }],
] as const) {
  test(`${field} without a user is refused, as by kubectl`, async (t) => {
    const { requests, kubeconfig, askKubectl } = await recording(t, { token: 't', ...user });
    assert.match(await askKubectl(), /requesting uid, groups or user-extra for me without impersonating a user/);
    await assert.rejects(runCaptured(plugin, ['volumes', '-A', '--kubeconfig', kubeconfig]), {
      message: `${kubeconfig} sets ${field} without as; set as to the user to impersonate`,
    });
    assert.deepEqual(requests, []);
  });
}
