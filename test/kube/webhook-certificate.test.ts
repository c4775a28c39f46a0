import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { parseAllDocuments, stringify } from 'yaml';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { mutatingWebhookConfigurations, pods } from '../../src/kube/resource.ts';
import { OwnCertificates } from '../../src/webhook/own-certificates.ts';
import { watchWebhookConfigurations } from '../../src/webhook/trust.ts';
import type { Component } from '../../worlds/cluster/component.ts';
import { fetchInside } from '../../worlds/cluster/fetch-inside.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer, startController } from './api-server.ts';

const home = join(import.meta.dirname, '..', '..');
const deploy = (name: string) => join(home, 'deploy', `${name}.yaml`);
const api = await startApiServer();
const { admin, cluster } = api;

/** The controllers share a network namespace with the API server, which reaches them by this name. */
const service = 'localhost';
const port = 9443;
const dayMs = 24 * 60 * 60_000;
let controller: Component;

before(async () => {
  await cluster.kubectl('apply', ...['namespace', 'crd', 'rbac'].map((name) => `-f${deploy(name)}`));
  await cluster.kubectl('apply', '-f', await webhookManifest());
  controller = await startController(
    cluster,
    '--enable-webhooks',
    `--webhook-addr=127.0.0.1:${port}`,
    `--webhook-service=${service}`,
  );
});

test('the controller creates its own certificate, and the API server trusts it', async () => {
  await podsCanBeCreated('first');
  assert.equal((await trusted()).length, 1);
});

test('a restarted controller has a new certificate, and the old one is no longer trusted', async () => {
  const [old] = await trusted();
  await controller.kill();
  controller.start();
  await eventually('there is a new certificate', async () => (await trusted())[0]?.serialNumber !== old?.serialNumber);
  await podsCanBeCreated('second');
  await eventually('the old one is no longer trusted', async () => (await trusted()).length === 1);
});

test('a caBundle that somebody removes is restored', async () => {
  await admin.patch(mutatingWebhookConfigurations, 'moorage', {
    type: 'json',
    body: [{ op: 'remove', path: '/webhooks/0/clientConfig/caBundle' }],
  });
  await podsCanBeCreated('third');
});

test('a replica is ready only while the API server trusts its certificate', async () => {
  await controller.kill();
  const write = await forbidChanges();
  controller.start();
  const reason = await eventually(
    'it reports why it is not ready',
    async () => /^503 (.*caBundle.*)$/.exec(await readiness())?.[1],
    {
      explain: () => controller.tail(),
    },
  );
  assert.match(reason, /MutatingWebhookConfiguration moorage does not trust the certificate of this process/);
  await write();
  await eventually('it is ready', async () => (await readiness()) === '200 ok', {
    explain: () => controller.tail(),
  });
  await podsCanBeCreated('fourth');
});

test('a certificate is renewed long before it expires: the new one is first trusted, then used, then the old one is removed', async (t) => {
  await controller.kill();
  const clock = new ManualClock(Date.now());
  const identity = 'renewing';
  const collaborators = { client: admin, clock, log: silentLog, random: () => 0 };
  const configurations = watchWebhookConfigurations(collaborators);
  const certificates = await OwnCertificates.start(
    { dnsName: service, identity },
    { ...collaborators, configurations },
  );
  for (const { informer } of configurations) informer.start();
  t.after(async () => {
    await certificates.close();
    for (const { informer } of configurations) await informer.stop();
  });
  const first = certificates.current.cert;
  const used: string[] = [];
  certificates.onRenewed(({ cert }) => used.push(cert));
  const own = async () => (await trusted()).filter(({ subject }) => subject === `CN=${identity}`);
  await eventually('the first certificate is trusted', async () => (await own()).length === 1);

  clock.advance(4 * dayMs);
  await eventually('the next certificate is trusted too', async () => (await own()).length === 2);
  assert.deepEqual(used, []);
  assert.equal(certificates.current.cert, first);

  // In steps, because the watch uses this clock too and has lost four days.
  await eventually('the old certificate is no longer trusted', async () => {
    clock.advance(10_000);
    return (await own()).length === 1;
  });
  assert.deepEqual(used, [certificates.current.cert]);
  assert.notEqual(certificates.current.cert, first);
  assert.equal((await own())[0]?.toString(), certificates.current.cert);
});

/** Revokes the right to change the configuration until the returned function is called. */
async function forbidChanges(): Promise<() => Promise<void>> {
  const place = ['clusterrole', 'moorage-webhook'] as const;
  const { rules } = JSON.parse(await cluster.kubectl('get', ...place, '-ojson')) as {
    rules: { resources: string[]; verbs: string[] }[];
  };
  const set = async (to: typeof rules) =>
    void (await cluster.kubectl('patch', ...place, '--type=merge', `--patch=${JSON.stringify({ rules: to })}`));
  const others = rules.map(({ verbs, ...rule }) => ({ ...rule, verbs: verbs.filter((verb) => verb !== 'patch') }));
  await set(others.filter(({ verbs }) => verbs.length > 0));
  return () => set(rules);
}

/** The result of the kubelet's probe. */
function readiness(): Promise<string> {
  return fetchInside(cluster.namespaces, 'http://127.0.0.1:8080/readyz');
}

async function podsCanBeCreated(namespace: string): Promise<void> {
  await newNamespace(api, namespace);
  await cluster.kubectl('--namespace', namespace, 'create', 'serviceaccount', 'default').catch(() => undefined);
  const spec = {
    containers: [{ name: 'a', image: 'a' }],
    automountServiceAccountToken: false,
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'later' } }], // otherwise the webhook would not be called
  };
  await eventually(
    'the webhook answers the API server',
    async () => admin.create(pods, { metadata: { name: 'pod', namespace }, spec }),
    { explain: () => controller.tail() },
  );
}

async function trusted(): Promise<readonly X509Certificate[]> {
  const configuration = await admin.get(mutatingWebhookConfigurations, 'moorage');
  const bundle = Buffer.from(configuration?.webhooks?.[0]?.clientConfig.caBundle ?? '', 'base64').toString();
  const certificates = bundle.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];
  return certificates.map((pem) => new X509Certificate(pem));
}

/** The deployed configuration, with a name that leads to our process. */
async function webhookManifest(): Promise<string> {
  const objects = parseAllDocuments(await readFile(deploy('webhook'), 'utf8')).map(
    (document) => document.toJS() as { kind: string; webhooks?: object[] },
  );
  const clientConfig = { url: `https://${service}:${port}/pod/mutate` };
  for (const { webhooks = [] } of objects) for (const webhook of webhooks) Object.assign(webhook, { clientConfig });
  const file = join(cluster.dir, 'webhook.yaml');
  await writeFile(file, objects.map((object) => stringify(object)).join('---\n'));
  return file;
}
