import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { selfSigned } from './self-signed.ts';

const dayMs = 24 * 60 * 60_000;
const dnsName = 'moorage-controller.moorage-system.svc';
const created = () => selfSigned({ commonName: 'pod-1', dnsName, nowMs: Date.now(), validForMs: 7 * dayMs });

test('a certificate is valid for its name and its time, and signed with its own key', async () => {
  const { cert, key } = await created();
  const read = new X509Certificate(cert);
  assert.equal(read.checkHost(dnsName), dnsName);
  assert.equal(read.checkHost('elsewhere.svc'), undefined);
  assert.equal(read.subject, 'CN=pod-1');
  assert.equal(read.ca, false);
  assert.ok(read.checkPrivateKey(createPrivateKey(key)));
  assert.ok(read.verify(read.publicKey));
  assert.ok(Date.parse(read.validFrom) < Date.now());
  const days = (Date.parse(read.validTo) - Date.now()) / dayMs;
  assert.ok(days > 6.9 && days <= 7, `${days} days`);
});

test('no two certificates are the same', async () => {
  const [one, other] = [new X509Certificate((await created()).cert), new X509Certificate((await created()).cert)];
  assert.notEqual(one.serialNumber, other.serialNumber);
  assert.ok(!one.publicKey.equals(other.publicKey));
});

test('only a client that trusts the certificate can connect to its server', async (t) => {
  const served = await created();
  const server = createServer(served, (socket) => socket.end('hello'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const speak = async (ca: string) => {
    const socket = connect({ port, host: '127.0.0.1', servername: dnsName, ca });
    await once(socket, 'secureConnect');
    socket.destroy();
  };
  await speak(served.cert);
  await assert.rejects(speak((await created()).cert));
});
