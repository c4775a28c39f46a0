import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { unpackTar } from 'modern-tar';
import { parse, stringify } from 'yaml';
import { type LogicalVolumeStatus, logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName } from '../../src/api/names.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { selfSigned } from '../../src/http/self-signed.ts';
import { writeEvent } from '../../src/kube/events.ts';
import {
  deployments,
  mutatingWebhookConfigurations,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  secrets,
} from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const plugin = kubectlMoorage({ columns: 120, colours: false });
const printed = (...words: string[]) => runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });

/** What status prints about a cluster with problems. */
async function status(...words: string[]): Promise<string> {
  const lines: string[] = [];
  const running = runCaptured(plugin, ['status', ...words], {
    env: { KUBECONFIG: cluster.kubeconfig },
    printed: lines,
  });
  await assert.rejects(running, { name: 'ProblemsFound' });
  return lines.join('\n');
}

/** Of a new ServiceAccount with this ClusterRole. */
async function kubeconfigOf(account: string, role: string): Promise<string> {
  const binding = [`--clusterrole=${role}`, `--serviceaccount=default:${account}`];
  await cluster.kubectl('create', 'serviceaccount', account);
  await cluster.kubectl('create', 'clusterrolebinding', account, ...binding);
  const may = ['auth', 'can-i', 'list', 'pods', `--as=system:serviceaccount:default:${account}`];
  await eventually('its rights are in effect', () => cluster.kubectl(...may));
  const token = (await cluster.kubectl('create', 'token', account)).trim();
  const config = parse(await readFile(cluster.kubeconfig, 'utf8'));
  const kubeconfig = join(await mkdtemp(join(tmpdir(), 'plugin-')), 'config');
  await writeFile(kubeconfig, stringify({ ...config, users: [{ ...config.users[0], user: { token } }] }));
  return kubeconfig;
}

const resources = { requests: { storage: '1Gi' } };

/** A claim with its volume, as the controller and a node leave them, and a pod that uses it. */
async function volume(namespace: string, claim: string, status: LogicalVolumeStatus = { volumeID: `id-${claim}` }) {
  const name = `pvc-${claim}`;
  const spec = { accessModes: ['ReadWriteOnce'], storageClassName: 'fast', resources, volumeName: name };
  const { metadata } = await admin.create(persistentVolumeClaims, { metadata: { name: claim, namespace }, spec });
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      csi: { driver: driverName, volumeHandle: `id-${claim}`, fsType: 'xfs' },
      claimRef: { namespace, name: claim, uid: metadata.uid },
      storageClassName: 'fast',
    },
  });
  const spec2 = { name, nodeName: 'node-a', size: '1Gi', deviceClass: 'ssd' };
  await admin.create(logicalVolumes, { metadata: { name }, spec: spec2 });
  await admin.patch(logicalVolumes, name, { type: 'merge', body: { status } }, { subresource: 'status' });
  await admin.create(pods, {
    metadata: { name: `pod-of-${claim}`, namespace },
    spec: {
      containers: [{ name: 'main', image: 'none' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }],
    },
  });
  const about = { resource: persistentVolumeClaims, name: claim, namespace, uid: metadata.uid };
  const event = { type: 'Normal', reason: 'VolumeCreated', action: 'Creating', message: `created ${name}` } as const;
  const reporter = { controller: 'topolvm.io/controller', instance: 'test' };
  await writeEvent(admin, reporter, about, event, Date.now(), AbortSignal.timeout(120_000));
}

before(async () => {
  await cluster.kubectl('apply', '-f', join(import.meta.dirname, '../../deploy/crd.yaml'));
  await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
  await newNamespace(api, 'db');
  await newNamespace(api, 'web');
  for (const namespace of ['db', 'web']) {
    await cluster.kubectl('-n', namespace, 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
  }
  await volume('db', 'data-0');
  await volume('db', 'data-1', { volumeID: 'id-data-1', missingFrom: 'uid' });
  await volume('web', 'cache');
});

test('volumes lists what the cluster has, by namespace and filter', async () => {
  const all = await printed('volumes', '-A');
  assert.match(
    all,
    /^NAMESPACE +CLAIM +POD +NODE +CLASS +SIZE +HEALTH +AGE\ndb +data-0 +pod-of-data-0 +node-a +ssd +1 GiB +Healthy/,
  );
  assert.equal(all.split('\n').length, 4);
  assert.match(await printed('volumes', '-n', 'web'), /^CLAIM .*\ncache +pod-of-cache .*$/);
  assert.match(await printed('volumes'), /^No volumes in namespace default; use -A/);
  assert.equal(await printed('volumes', '-A', '--node', 'elsewhere'), 'No such volumes.');
  const { items } = JSON.parse(await printed('volumes', '-A', '--health', 'missing', '-ojson'));
  assert.deepEqual(
    items.map((item: { claim: string }) => item.claim),
    ['data-1'],
  );
});

test('volume finds a volume by its claim, its PersistentVolume or its LogicalVolume, with its events', async () => {
  const screen = await printed('volume', 'db/data-0');
  assert.match(screen, /^Claim: +db\/data-0 \(\w+\)\nPods: +pod-of-data-0 \(Pending\)\nHealth: +Healthy\n/);
  assert.match(screen, /^Filesystem: +xfs$/m);
  assert.match(
    screen,
    /^Events, oldest first:\n(.*\n)*.*VolumeCreated +PersistentVolumeClaim\/data-0\n +created pvc-data-0/m,
  );
  for (const words of [['data-0', '-n', 'db'], ['pvc/data-0', '-n', 'db'], ['pvc-data-0'], ['pv/pvc-data-0']]) {
    const { namespace, claim } = JSON.parse(await printed('volume', ...words, '-ojson'));
    assert.deepEqual([namespace, claim], ['db', 'data-0']);
  }
  const spec = { accessModes: ['ReadWriteOnce'], storageClassName: 'absent', resources };
  await admin.create(persistentVolumeClaims, { metadata: { name: 'pvc-data-0', namespace: 'web' }, spec });
  for (const words of [['web/pvc-data-0'], ['pvc-data-0', '-n', 'web']]) {
    const waiting = /^Claim: +web\/pvc-data-0 \(Pending\)\nPods: +none\nHealth: +Pending: it has no volume yet\n/;
    assert.match(await printed('volume', ...words), waiting, 'not the PersistentVolume of that name');
  }
  await assert.rejects(printed('volume', 'nothing'), {
    message:
      /no claim default\/nothing, and no PersistentVolume or LogicalVolume nothing; see kubectl moorage volumes -A/,
  });
});

test('a PersistentVolume of another driver is no volume of Moorage', async () => {
  await admin.create(persistentVolumes, {
    metadata: { name: 'foreign' },
    spec: {
      ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, storageClassName: 'fast' },
      csi: { driver: 'example.com', volumeHandle: 'x' },
    },
  });
  await assert.rejects(printed('volume', 'foreign'), /foreign is not a volume of Moorage: its driver is example\.com/);
});

test('names of the cluster are completed', async () => {
  assert.equal(await printed('complete', '--', 'reattach', 'pv/pvc-data'), 'pv/pvc-data-0\npv/pvc-data-1\n:4');
  assert.equal(await printed('complete', '--', 'volume', '-n', 'db', 'data'), 'data-0\ndata-1\n:4');
  assert.equal(await printed('complete', '--', 'volumes', '--namespace', 'we'), 'web\n:4');
  assert.match(await printed('complete', '--', 'volumes', '--context', ''), /^\w+\n:4$/);
});

test('nodes and status show what the agents report, and status fails if there are problems', async () => {
  const nothing = { total: 0, volumes: [] };
  const pool = {
    deviceClass: 'ssd',
    default: true,
    type: 'thick',
    health: 'Healthy',
    size: '10Gi',
    used: '5Gi',
    free: '5Gi',
  } as const;
  await admin.create(nodeStorages, {
    metadata: { name: 'node-a' },
    status: {
      nodeUID: 'uid',
      updatedAt: new Date().toISOString(),
      pools: [pool],
      erasures: nothing,
      orphans: nothing,
      versions: {},
      features: {},
    },
  });
  assert.match(await printed('nodes'), /node-a +ssd \* +thick +████░░░░ {2}50% +5 GiB +10 GiB +0 +Healthy/);
  assert.match(await status(), /^✘ 2 problems\n\nNodes +0, with 0 pools\n[^]*^✘ volume db\/data-1\n/m);
  await admin.create(nodes, { metadata: { name: 'node-a' } });
  assert.match(await status(), /^Nodes +1, with 1 pool\nVolumes +3: 1 Missing$/m);
});

test('doctor says what is missing, and what the user may not read', async () => {
  const service = { name: 'moorage-controller', namespace: 'db' };
  const { cert } = await selfSigned({ commonName: 'gone', dnsName: 'x', nowMs: 0, validForMs: 1000 });
  const caBundle = Buffer.from(cert).toString('base64');
  const hook = { name: 'pod-hook.topolvm.io', admissionReviewVersions: ['v1'], sideEffects: 'None' };
  await admin.create(mutatingWebhookConfigurations, {
    metadata: { name: 'moorage' },
    webhooks: [{ ...hook, clientConfig: { service, caBundle } }],
  });
  const doctor = async (...words: string[]) => {
    const lines: string[] = [];
    const env = { KUBECONFIG: cluster.kubeconfig };
    await assert.rejects(runCaptured(plugin, ['doctor', ...words], { env, printed: lines }), { name: 'ProblemsFound' });
    return lines.join('\n');
  };
  const screen = await doctor();
  assert.match(screen, /^✘ agents +1 finding\n {4}✘ Moorage is not installed/m);
  assert.match(screen, /^✔ CRDs +LogicalVolume, NodeStorage, VolumeMove are served$/m);
  assert.match(screen, /trusts no certificate of webhook[^]*: expired on Jan +1 [^]*fix: kubectl/);
  assert.match(screen, /^✘ orphans +1 finding\n[^]*fix: kubectl moorage orphans/m);

  const kubeconfig = await kubeconfigOf('reader', 'view');
  const { healthy, areas } = JSON.parse(await doctor('--kubeconfig', kubeconfig, '-o', 'json'));
  assert.equal(healthy, false);
  const unknown = areas.filter(({ result }: { result: string }) => result === 'unknown');
  assert.ok(
    unknown.some(({ area, summary }: { area: string; summary: string }) =>
      [area, summary].join().startsWith('CRDs,you may not list customresourcedefinitions'),
    ),
    JSON.stringify(unknown),
  );
});

test('status lists first that the controller is missing or not ready, and that nothing answers its webhook', async () => {
  const screen = await status();
  const [first = '', second = '', third = ''] = screen.split(/^✘ /m).slice(2);
  assert.match(
    first,
    /^controller\n +there is none, so no volume is created, moved or removed: see kubectl moorage doctor$/m,
  );
  assert.match(second, /^webhook configuration moorage\n[^]*Service moorage-controller has no ready endpoint/);
  assert.match(third, /^volume db\/data-1\n/);

  const labels = { 'app.kubernetes.io/name': 'moorage', 'app.kubernetes.io/component': 'controller' };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'controller', image: 'none' }] } };
  await admin.create(deployments, {
    metadata: { name: 'moorage-controller', namespace: 'db', labels },
    spec: { replicas: 2, selector: { matchLabels: labels }, template },
  });
  assert.match(await status(), /^✘ controller moorage-controller\n +0 of 2 replicas ready, so no volume is created/m);

  const kinds =
    'logicalvolumes.topolvm.io,persistentvolumes,persistentvolumeclaims,pods,nodestorages.moorage.dev,nodes';
  await cluster.kubectl('create', 'clusterrole', 'volumes', '--verb=list', `--resource=${kinds}`);
  const lesser = await status('--kubeconfig', await kubeconfigOf('lesser', 'volumes'));
  assert.match(
    lesser,
    /^! controller\n +unknown: the API server refused [^]*^! webhook\n +unknown: the API server refused /m,
  );
});

test('a bundle has what a bug report needs, and none of the secrets that are around', async () => {
  const planted = 'pl4nted-value';
  const annotations = {
    'example.com/note': planted,
    'kubectl.kubernetes.io/last-applied-configuration': `{"data":"${planted}"}`,
  };
  const program = {
    ...{ name: 'main', image: 'none', command: ['run', `--token=${planted}`], args: ['--password', planted] },
    env: [{ name: 'KEY', value: planted }],
  };
  await newNamespace(api, 'secrets');
  await cluster.kubectl('-n', 'secrets', 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
  const metadata = (name: string) => ({ name, namespace: 'secrets', annotations });
  await admin.create(secrets, { metadata: metadata('key'), stringData: { passphrase: planted } });
  const claim = { accessModes: ['ReadWriteOnce'], storageClassName: 'fast', resources, volumeName: 'pvc-planted' };
  const { metadata: bound } = await admin.create(persistentVolumeClaims, {
    metadata: metadata('planted'),
    spec: claim,
  });
  const reference = { namespace: 'secrets', name: 'planted' };
  const csi = {
    driver: driverName,
    volumeHandle: 'planted',
    nodeStageSecretRef: { namespace: 'secrets', name: 'key' },
  };
  await admin.create(persistentVolumes, {
    metadata: { name: 'pvc-planted', annotations },
    spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, csi, claimRef: reference },
  });
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'planted' } }];
  await admin.create(pods, { metadata: metadata('user'), spec: { containers: [program], volumes } });
  const labels = { 'app.kubernetes.io/name': 'moorage', 'app.kubernetes.io/component': 'node' };
  await admin.create(pods, { metadata: { ...metadata('agent'), labels }, spec: { containers: [program] } });
  await admin.create(nodes, { metadata: { name: 'planted', annotations } });
  const about = { resource: persistentVolumeClaims, ...reference, uid: bound.uid };
  const event = { type: 'Warning', reason: 'X', action: 'X', message: `login failed: password=${planted}` } as const;
  await writeEvent(admin, { controller: 'x', instance: 'x' }, about, event, Date.now(), AbortSignal.timeout(120_000));

  const file = join(await mkdtemp(join(tmpdir(), 'bundle-')), 'bundle.tar.gz');
  const said = await printed('bundle', '--output', file);
  assert.match(said, /bundle\.tar\.gz contains:\n {2}doctor\.txt, doctor\.json[^]*objects\/: \d+ files/);
  const archive = gunzipSync(await readFile(file));
  const entries = await unpackTar(archive);
  const textOf = (name: string) =>
    Buffer.from(entries.find(({ header }) => header.name === `moorage-bundle/${name}`)?.data ?? []).toString();
  assert.match(textOf('objects/pods.yaml'), /name: agent/);
  assert.match(textOf('objects/pods-with-volumes.yaml'), /name: user[^]*claimName: planted/);
  assert.match(textOf('objects/events.yaml'), /login failed: password=REDACTED/);
  assert.match(textOf('objects/persistentvolumes.yaml'), /volumeHandle: planted/);
  assert.match(textOf('doctor.txt'), /^✘ agents/m);
  assert.equal(archive.includes(planted), false);
  assert.equal(archive.includes(Buffer.from(planted).toString('base64')), false);
  await assert.rejects(printed('bundle', '--output', file), /exists already; pass another --output/);
  for (const name of ['user', 'agent']) {
    await admin.delete(pods, name, { namespace: 'secrets', gracePeriodSeconds: 0 });
  }
});

test('the user is who the command of the kubeconfig says', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'plugin-'));
  const config = parse(await readFile(cluster.kubeconfig, 'utf8'));
  const { user } = config.users[0];
  const answer = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: {
      clientCertificateData: Buffer.from(user['client-certificate-data'], 'base64').toString(),
      clientKeyData: Buffer.from(user['client-key-data'], 'base64').toString(),
    },
  };
  const login = join(dir, 'login');
  await writeFile(
    login,
    `#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >${dir}/info\ncat <<'E'\n${JSON.stringify(answer)}\nE\n`,
  );
  await chmod(login, 0o755);
  const kubeconfig = join(dir, 'config');
  const exec = { apiVersion: answer.apiVersion, command: login, interactiveMode: 'Never', provideClusterInfo: true };
  const contexts = [{ ...config.contexts[0], context: { ...config.contexts[0].context, namespace: 'web' } }];
  await writeFile(kubeconfig, stringify({ ...config, contexts, users: [{ ...config.users[0], user: { exec } }] }));

  assert.match(await runCaptured(plugin, ['volumes', '--kubeconfig', kubeconfig]), /\ncache /);
  const info = JSON.parse(await readFile(join(dir, 'info'), 'utf8'));
  assert.equal(info.spec.cluster.server, config.clusters[0].cluster.server);
});

test('a cluster whose Moorage does not know NodeStorage yet: nodes and status say so, volumes and orphans work', async () => {
  await cluster.kubectl('delete', 'crd', 'nodestorages.moorage.dev');
  await assert.rejects(printed('nodes'), /the cluster has no kind NodeStorage; upgrade Moorage there/);
  assert.match(await status(), /^! nodes\n +unknown: the cluster has no kind NodeStorage/m);
  assert.match(await printed('volumes', '-A'), /data-0/);
  assert.match(await printed('orphans'), /^Missing +pvc-data-1/m);
});
