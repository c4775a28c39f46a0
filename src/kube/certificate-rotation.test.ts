import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { stringify } from 'yaml';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { selfSigned } from '../webhook/self-signed.ts';
import type { Connection } from './connection.ts';
import { connectionFromKubeconfig, connectionInCluster } from './credentials.ts';
import { Transport } from './transport.ts';

const certificate = (commonName: string) =>
  selfSigned({ commonName, dnsName: 'localhost', nowMs: Date.now(), validForMs: 3_600_000 });
const get = { method: 'GET', path: '/version' } as const;

/** Answers with the name in the client's certificate, unless that is refused. */
async function startServer(t: TestContext) {
  const its = certificate('first');
  const refused = new Set<string>();
  const server = createServer({ ...its, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    const { subject } = (request.socket as TLSSocket).getPeerCertificate();
    const name = String(subject?.CN ?? 'nobody');
    response.writeHead(refused.has(name) ? 401 : 200).end(JSON.stringify(name));
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const rotate = (to: ReturnType<typeof certificate>) => {
    server.setSecureContext(to);
    server.closeAllConnections();
  };
  return { port: String(port), ca: its.cert, rotate, refused };
}

async function directory(t: TestContext): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-certificates-'));
  t.after(() => rm(dir, { recursive: true }));
  return dir;
}

function transportTo(t: TestContext, connection: Connection): Transport {
  const transport = new Transport({ connection, clock: systemClock, log: silentLog, timeoutMs: 20_000 });
  t.after(() => transport.close());
  return transport;
}

test('a server with a certificate of a new authority is refused, until the file of authorities has it', async (t) => {
  const { port, ca, rotate } = await startServer(t);
  const dir = await directory(t);
  await writeFile(join(dir, 'token'), 'token');
  await writeFile(join(dir, 'first.crt'), ca);
  await symlink('first.crt', join(dir, 'ca.crt'));
  const transport = transportTo(
    t,
    await connectionInCluster({ host: 'localhost', port, serviceAccountDir: dir }, systemClock),
  );
  await transport.call(get);

  const second = certificate('second');
  rotate(second);
  await assert.rejects(transport.call(get), { code: 'Unavailable', message: /certificate/ });
  await writeFile(join(dir, 'second.crt'), ca + second.cert);
  await rm(join(dir, 'ca.crt'));
  await symlink('second.crt', join(dir, 'ca.crt'));
  assert.equal(await transport.call(get), 'nobody');
});

test('a client certificate that is renewed in its kubeconfig is used once the server refuses the old one', async (t) => {
  const { port, ca, refused } = await startServer(t);
  const path = join(await directory(t), 'kubeconfig');
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const writeConfig = (client: ReturnType<typeof certificate>) =>
    writeFile(
      path,
      stringify({
        'current-context': 'c',
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
        clusters: [
          { name: 'c', cluster: { server: `https://localhost:${port}`, 'certificate-authority-data': base64(ca) } },
        ],
        users: [
          {
            name: 'u',
            user: { 'client-certificate-data': base64(client.cert), 'client-key-data': base64(client.key) },
          },
        ],
      }),
    );
  await writeConfig(certificate('old me'));
  const transport = transportTo(t, await connectionFromKubeconfig(path, systemClock));
  assert.equal(await transport.call(get), 'old me');

  await writeConfig(certificate('new me'));
  refused.add('old me');
  assert.equal(await transport.call(get), 'new me');
});
