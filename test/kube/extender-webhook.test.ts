import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { connect } from 'node:tls';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { systemClock } from '../../src/base/clock.ts';
import { createLog } from '../../src/base/log.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { runController } from '../../src/controller/controller-process.ts';
import { nodes, type Pod, persistentVolumeClaims, pods } from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { WebhookServer } from '../../src/webhook/webhook-server.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer, startController } from './api-server.ts';

const home = join(import.meta.dirname, '..', '..');
const deploy = (name: string) => join(home, 'deploy', `${name}.yaml`);
const api = await startApiServer();
const { admin, cluster } = api;
const { authority } = cluster.controlPlane;
const logs = join(cluster.dir, 'logs');

/** The API server, the scheduler and our programs share one network namespace, so they use its loopback address. */
const webhookAddress = '127.0.0.1:9443';
let controller: Component;

before(async () => {
  await cluster.kubectl('apply', ...['namespace', 'crd', 'rbac', 'storageclass'].map((name) => `-f${deploy(name)}`));
  await startWebhooks();
  await startExtender();
  await register('small', 3);
  await register('roomy', 30);
  await cluster.kubectl('apply', '-f', await webhookConfiguration());
  await webhookInForce();
});

test('a pod is annotated with what its claims request, and the extender finds a node with enough space', async () => {
  const namespace = await newNamespace(api, 'fitting');
  await claim(namespace, 'one', '2Gi');
  await claim(namespace, 'other', '3Gi');
  const pod = await createPod(namespace, ['one', 'other']);
  assert.equal(pod.metadata?.annotations?.['capacity.topolvm.io/00default'], String(5 * 1024 ** 3));
  assert.equal(pod.spec?.containers[0]?.resources?.requests?.['topolvm.io/capacity'], '1');
  assert.equal(pod.spec?.containers[0]?.resources?.limits?.['topolvm.io/capacity'], '1');

  const chosen = await eventually('a node is selected', async () => {
    const found = await admin.get(persistentVolumeClaims, 'one', { namespace });
    return found?.metadata.annotations?.['volume.kubernetes.io/selected-node'];
  });

  assert.equal(chosen, 'roomy');
});

test('a pod that fits on no node gets an event that says why', async () => {
  const namespace = await newNamespace(api, 'huge');
  await claim(namespace, 'huge', '100Gi');
  await createPod(namespace, ['huge']);

  await eventually('the scheduler has reported an event', async () => {
    const path = '{.items[?(@.reason=="FailedScheduling")].message}';
    assert.match(
      await cluster.kubectl('-n', namespace, 'get', 'events', `-ojsonpath=${path}`),
      /2 out of VG free space/,
    );
    return true;
  });
});

test('pods of a namespace with the ignore label do not call the webhook', async () => {
  const namespace = 'left-out';
  await admin.create(namespaces, { metadata: { name: namespace, labels: { 'topolvm.io/webhook': 'ignore' } } });
  await claim(namespace, 'data', '1Gi');
  const pod = await createPod(namespace, ['data']);
  assert.equal(pod.metadata?.annotations, undefined);
});

test('a renewed certificate is loaded, and one whose key does not match is not', async (t) => {
  const certDir = join(cluster.dir, 'renewed');
  const first = await issue(certDir, 'first');
  const options = { address: '127.0.0.1:0', certDir, service: '', identity: 'test', answers: {} };
  const complaints: string[] = [];
  const log = createLog('test', 'error', (line) => complaints.push(line));
  const server = await WebhookServer.start(options, { client: admin, clock: systemClock, log, random: Math.random });
  t.after(() => server.stop());
  const served = () => servedCertificate(server.address.port);
  assert.equal(await served(), first);

  await writeFile(join(certDir, 'tls.key'), '');
  await eventually('the certificate is rejected', async () =>
    complaints.some((line) => line.includes('keeping the old certificate')),
  );
  assert.equal(await served(), first);

  const second = await issue(certDir, 'second');
  await eventually('the new certificate is served', async () => (await served()) === second);
  assert.notEqual(first, second);
});

test('while no controller answers, pods with claims are rejected and all others are created', async () => {
  const namespace = await newNamespace(api, 'unanswered');
  await controller.kill();
  const create = (name: string, volumes: NonNullable<NonNullable<Pod['spec']>['volumes']>) =>
    admin.create(pods, { metadata: { name, namespace }, spec: { ...podSpec([]), volumes } });
  await eventually('a pod without volumes is created', () => create('plain', []));
  await create('scratch', [{ name: 'scratch', emptyDir: {} }]);

  const refused = /failed calling webhook "pod-hook.topolvm.io"/;
  await assert.rejects(create('claim', [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]), refused);
  const volumeClaimTemplate = {
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'moorage',
      resources: { requests: { storage: '1Gi' } },
    },
  };
  await assert.rejects(create('ephemeral', [{ name: 'data', ephemeral: { volumeClaimTemplate } }]), refused);
});

test('a controller that is told to stop becomes unready, and still answers for a while', async () => {
  const certDir = join(cluster.dir, 'stopping');
  await issue(certDir, 'stopping');
  const clock = new ManualClock(Date.now());
  const stop = new AbortController();
  // An address that only this process uses.
  const host = `127.66.${(process.pid >> 8) & 255}.${process.pid & 255}`;
  const ended = runController(
    {
      csi: true,
      localPv: false,
      localPvMountBase: '',
      localPvDefaults: '',
      csiSocket: join(cluster.dir, 'stopping.sock'),
      metricsAddress: `${host}:8080`,
      secureMetricsServer: false,
      enableWebhooks: true,
      evictionWebhook: false,
      webhookAddress: `${host}:9443`,
      certDir,
      webhookService: '',
      skipNodeFinalize: false,
      freshNodeCapacity: new Map(),
      startupTaint: '',
      leaderElection: false,
      leaderElectionId: '',
      leaderElectionNamespace: '',
      leaseDurationMs: 0,
      renewDeadlineMs: 0,
      retryPeriodMs: 0,
      version: 'test',
    },
    { client: admin, clock, log: silentLog },
    stop.signal,
  );
  const readiness = async () => (await fetch(`http://${host}:8080/readyz`)).status;
  await eventually('it is ready', async () => (await readiness()) === 200);

  stop.abort();
  assert.equal(await readiness(), 503);
  const answer = await review(host);
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers.connection, 'close', 'the API server must call another one next');

  clock.advance(5000);
  await ended;
  await assert.rejects(review(host), { code: 'ECONNREFUSED' });
});

/** Calls the webhook like the API server. */
async function review(host: string): Promise<IncomingMessage> {
  const ca = await readFile(authority.certificate);
  const checkServerIdentity = () => undefined; // the certificate is for another address
  const agent = new Agent({ keepAlive: true });
  const asked = request({ host, port: 9443, path: '/pod/mutate', method: 'POST', ca, checkServerIdentity, agent });
  asked.end(JSON.stringify({ request: { uid: '1', object: {} } }));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.resume();
  return answer;
}

/** A client with only its own rights. */
async function startWebhooks(): Promise<void> {
  const certDir = join(cluster.dir, 'certs');
  await issue(certDir, 'webhook');
  await cluster.kubectl('apply', '-f', await webhookRights());
  controller = await startController(
    cluster,
    '--enable-webhooks',
    `--webhook-addr=${webhookAddress}`,
    `--cert-dir=${certDir}`,
  );
  await logSays(controller, 'serving webhooks');
}

/** The extender, and a scheduler that calls it, configured as documented. */
async function startExtender(): Promise<void> {
  const extender = new Component(cluster.namespaces, logs, 'moorage-scheduler', [
    join(home, 'bin', 'moorage'),
    'scheduler',
  ]);
  cluster.components.push(extender);
  extender.start();
  await logSays(extender, 'serving');

  const documentation = await readFile(join(home, 'docs', 'scheduler.md'), 'utf8');
  const [, shown = ''] = /```yaml\n(apiVersion: kubescheduler[^]*?)```/.exec(documentation) ?? [];
  const config = parse(shown) as { clientConnection: { kubeconfig: string } };
  config.clientConnection.kubeconfig = join(authority.dir, 'scheduler.kubeconfig');
  const file = join(cluster.dir, 'scheduler.yaml');
  await writeFile(file, stringify({ ...config, leaderElection: { leaderElect: false } }));
  await cluster.controlPlane.scheduler.kill();
  const scheduler = new Component(cluster.namespaces, logs, 'kube-scheduler-with-extender', [
    cluster.binaries.kubernetes['kube-scheduler'],
    `--config=${file}`,
    '--bind-address=127.0.0.1',
  ]);
  cluster.components.push(scheduler);
  scheduler.start();
}

async function logSays(component: Component, words: string): Promise<void> {
  await eventually(
    `${component.name} says '${words}'`,
    async () => (await component.tail()).includes(`"msg":"${words}"`),
    { explain: () => component.tail() },
  );
}

/** The RBAC rules and the webhook configuration of deploy/webhook.yaml, with an address that works without Services. */
async function webhookParts(): Promise<Record<string, unknown>[]> {
  const documents = parseAllDocuments(await readFile(deploy('webhook'), 'utf8'));
  return documents.map((document) => document.toJS() as Record<string, unknown>);
}

async function webhookRights(): Promise<string> {
  const rights = (await webhookParts()).filter(({ kind }) => String(kind).startsWith('ClusterRole'));
  return writeObjects('webhook-rights', rights);
}

async function webhookConfiguration(): Promise<string> {
  const caBundle = (await readFile(authority.certificate)).toString('base64');
  const clientConfig = { url: `https://${webhookAddress}/pod/mutate`, caBundle };
  const configurations = (await webhookParts()).filter(({ kind }) => kind === 'MutatingWebhookConfiguration');
  return writeObjects(
    'webhook-configuration',
    configurations.map((configuration) => ({
      ...configuration,
      webhooks: (configuration['webhooks'] as object[]).map((webhook) => ({ ...webhook, clientConfig })),
    })),
  );
}

/** The API server uses new webhooks with a short delay. */
async function webhookInForce(): Promise<void> {
  const namespace = await newNamespace(api, 'first-asked');
  await claim(namespace, 'data', '1Gi');
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'pod', namespace }, spec: podSpec(['data']) };
  const file = await writeObjects('first-asked', [pod]);
  const words = ['create', `--filename=${file}`, '--dry-run=server', '--output=jsonpath={.metadata.annotations}'];
  await eventually('the webhook is in effect', async () => (await cluster.kubectl(...words)) !== '');
}

async function writeObjects(name: string, objects: readonly object[]): Promise<string> {
  const file = join(cluster.dir, `${name}.yaml`);
  await writeFile(file, objects.map((object) => stringify(object)).join('---\n'));
  return file;
}

/** A Node without a machine, with that many GiB free. */
async function register(name: string, gibibytes: number): Promise<void> {
  await admin.create(nodes, {
    metadata: { name, annotations: { 'capacity.topolvm.io/00default': String(gibibytes * 1024 ** 3) } },
    status: { allocatable: { pods: '10' }, capacity: { pods: '10' } },
  });
}

async function claim(namespace: string, name: string, storage: string): Promise<void> {
  await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'moorage',
      resources: { requests: { storage } },
    },
  });
}

async function createPod(namespace: string, claims: readonly string[]): Promise<Pod> {
  // A namespace accepts pods once it has its default ServiceAccount.
  return eventually('the pod is created', () =>
    admin.create(pods, { metadata: { name: 'pod', namespace }, spec: podSpec(claims) }),
  );
}

function podSpec(claims: readonly string[]): NonNullable<Pod['spec']> {
  return {
    containers: [{ name: 'first', image: 'none' }],
    volumes: claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
    tolerations: [{ operator: 'Exists' }], // no kubelet reports these nodes ready
  };
}

/** Writes a new key pair into the directory, each file atomically like a mounted Secret; returns its name. */
async function issue(certDir: string, name: string): Promise<string> {
  await mkdir(certDir, { recursive: true });
  const { certificate, key } = await authority.server(name, `/CN=${name}`, ['IP:127.0.0.1']);
  for (const [from, to] of [
    [certificate, 'tls.crt'],
    [key, 'tls.key'],
  ] as const) {
    await writeFile(join(certDir, `${to}.new`), await readFile(from));
    await rename(join(certDir, `${to}.new`), join(certDir, to));
  }
  return name;
}

async function servedCertificate(port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, ca: await readFile(authority.certificate) });
  try {
    await once(socket, 'secureConnect');
    return String(socket.getPeerCertificate().subject.CN);
  } finally {
    socket.destroy();
  }
}
