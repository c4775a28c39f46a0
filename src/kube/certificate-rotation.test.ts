import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { stringify } from 'yaml';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { selfSigned } from '../http/self-signed.ts';
import { connectionFromKubeconfig } from './credentials.ts';
import { Transport } from './transport.ts';

const certificate = (commonName: string) =>
  selfSigned({ commonName, dnsName: 'localhost', nowMs: Date.now(), validForMs: 3_600_000 });
const get = { method: 'GET', path: '/version' } as const;

/** Answers with the name in the client's certificate, unless that certificate is refused. */
async function startServer(t: TestContext) {
  const firstCertificate = await certificate('first');
  const refused = new Set<string>();
  const server = createServer(
    { ...firstCertificate, requestCert: true, rejectUnauthorized: false },
    (request, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate();
      const name = String(subject?.CN ?? 'nobody');
      response.writeHead(refused.has(name) ? 401 : 200).end(JSON.stringify(name));
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const rotate = (to: Awaited<ReturnType<typeof certificate>>) => {
    server.setSecureContext(to);
    server.closeAllConnections();
  };
  return { port, ca: firstCertificate.cert, rotate, refused };
}

/** A kubeconfig for the server; its certificates are next to it, as `ca.crt`, `me.crt` and `me.key`. */
async function writeKubeconfig(t: TestContext, port: number, user: object = {}): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-certificates-'));
  t.after(() => rm(dir, { recursive: true }));
  const cluster = {
    server: `https://127.0.0.1:${port}`,
    'tls-server-name': 'localhost',
    'certificate-authority': 'ca.crt',
  };
  const config = {
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
  };
  await writeFile(join(dir, 'config'), stringify(config));
  return dir;
}

async function transportBy(t: TestContext, dir: string): Promise<Transport> {
  const connection = await connectionFromKubeconfig(join(dir, 'config'), systemClock);
  const transport = new Transport({ connection, clock: systemClock, log: silentLog, timeoutMs: 120_000 });
  t.after(() => transport.close());
  return transport;
}

test('a server with a certificate from a new CA is refused until the CA file has that CA', async (t) => {
  const { port, ca, rotate } = await startServer(t);
  const dir = await writeKubeconfig(t, port);
  await writeFile(join(dir, 'first.crt'), ca);
  await symlink('first.crt', join(dir, 'ca.crt'));
  const transport = await transportBy(t, dir);
  await transport.call(get);

  const second = await certificate('second');
  rotate(second);
  await assert.rejects(transport.call(get), { code: 'Unavailable', message: /certificate/ });
  await writeFile(join(dir, 'second.crt'), ca + second.cert);
  await symlink('second.crt', join(dir, 'ca.new'));
  await rename(join(dir, 'ca.new'), join(dir, 'ca.crt'));
  assert.equal(await transport.call(get), 'nobody');
});

test('a renewed client certificate is used once the server refuses the old one', async (t) => {
  const { port, ca, refused } = await startServer(t);
  const dir = await writeKubeconfig(t, port, { 'client-certificate': 'me.crt', 'client-key': 'me.key' });
  await writeFile(join(dir, 'ca.crt'), ca);
  const become = async ({ cert, key }: Awaited<ReturnType<typeof certificate>>) => {
    await writeFile(join(dir, 'me.crt'), cert);
    await writeFile(join(dir, 'me.key'), key);
  };
  await become(await certificate('old me'));
  const transport = await transportBy(t, dir);
  assert.equal(await transport.call(get), 'old me');

  await become(await certificate('new me'));
  refused.add('old me');
  assert.equal(await transport.call(get), 'new me');
});
