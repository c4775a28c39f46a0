import assert from 'node:assert/strict';
import { link, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stringify } from 'yaml';
import { buildImage } from '../../scripts/image/build-image.ts';
import { localPvAnnotations } from '../../src/api/local-pv.ts';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { persistentVolumes } from '../../src/kube/resource.ts';
import { startCluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { importImages } from '../../worlds/cluster/program-image.ts';
import { values as testValues } from '../../worlds/cluster/values.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { stage } from '../../worlds/host/progress.ts';
import { chartDir, dirOf, helm, namespace } from './chart.ts';

// Enough for two controllers with their sidecars.
const cluster = await startCluster({ after }, { nodes: 1, memoryMb: 1536 });
const { kubectl } = cluster;

await stage('Image', async (say) => {
  const { archive } = await buildImage(join(cluster.dir, 'images'), say);
  for (const node of cluster.nodes) {
    say(`importing on ${node.name}`);
    const there = join(node.machine.dir, 'moorage.tar'); // the node sees no other host files
    await link(archive, there);
    await importImages(node, [there]);
  }
});

const values = join(cluster.dir, 'values.yaml');
await writeFile(
  values,
  stringify({
    image: testValues.image, // the sidecar images are on the nodes from the start
    lvmd: {
      deviceClasses: [
        { name: 'lvm', 'volume-group': volumeGroup, default: true, 'spare-gb': 0 },
        { name: 'files', type: 'file', path: '/var/lib/moorage', 'spare-gb': 0 },
      ],
    },
    storageClasses: [
      { name: 'moorage', storageClass: { fsType: 'ext4' } },
      {
        name: 'moorage-files',
        storageClass: { fsType: 'xfs', additionalParameters: { 'topolvm.io/device-class': 'files' } },
      },
    ],
    snapshot: { enabled: true },
  }),
);

/** Runs helm as an administrator; if something does not become ready, the error includes the logs of its pods. */
async function manage(...words: readonly string[]): Promise<void> {
  const admin = [`--kubeconfig=${cluster.kubeconfig}`, `--namespace=${namespace}`, '--timeout=300s'];
  await helm(...words, ...admin).catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await explain()}`);
  });
}

/** What an administrator would look at when something does not become ready. */
async function explain(): Promise<string> {
  const pods = await kubectl('--namespace', namespace, 'describe', 'pods');
  const logs = ['daemonset/moorage-node', 'deployment/moorage-controller'].map((of) =>
    kubectl('--namespace', namespace, 'logs', of, '--all-containers', '--tail=20').catch(
      (error: Error) => error.message,
    ),
  );
  return [pods, ...(await Promise.all(logs)), await cluster.tails()].join('\n');
}

test('helm install: all pods run, and the node reports its capacity', async () => {
  await kubectl('apply', `--filename=${cluster.binaries.snapshotManifests}`);
  await kubectl('create', 'namespace', namespace);
  await kubectl('label', 'namespace', namespace, 'pod-security.kubernetes.io/enforce=privileged');
  await manage('install', 'moorage', chartDir, `--values=${values}`, '--wait');
  await eventually('the scheduler knows the capacity', async () => {
    const listed = await kubectl('--namespace', namespace, 'get', 'csistoragecapacities', '--output=name');
    return listed.trim().split('\n').length >= 2;
  });
});

test('helm test: a claim gets a volume, and a pod writes to it', async () => {
  await manage('test', 'moorage');
  await eventually('its volume is gone', async () => {
    return (await cluster.kube.list(logicalVolumes)).items.length === 0;
  });
});

test('helm uninstall is rejected while there is a volume, and then leaves nothing behind', async () => {
  await cluster.kube.create(logicalVolumes, {
    metadata: { name: 'left' },
    spec: { name: 'left', nodeName: cluster.nodes[0]?.name ?? '', size: '64Mi', deviceClass: 'files' },
  });
  await assert.rejects(manage('uninstall', 'moorage'), /BackoffLimitExceeded|failed/);
  const output = await kubectl('--namespace', namespace, 'logs', 'job/moorage-uninstall-check');
  assert.match(output, /left on node-a/);

  await assert.rejects(cluster.kube.delete(logicalVolumes, 'left'), /deleting a LogicalVolume deletes its data/);
  await kubectl('annotate', 'logicalvolume', 'left', 'moorage.dev/allow-delete=true');
  await cluster.kube.delete(logicalVolumes, 'left');
  await eventually('the volume is gone', async () => (await cluster.kube.get(logicalVolumes, 'left')) === undefined);
  await manage('uninstall', 'moorage', '--wait');
  const left = () => kubectl('--namespace', namespace, 'get', 'all,configmaps,serviceaccounts', '--output=name');
  await eventually('nothing is left in the namespace', async () => !(await left()).includes('moorage'), {
    timeoutMs: 180_000,
    explain: left,
  });
  assert.ok(await kubectl('get', 'crd', 'logicalvolumes.topolvm.io'));
});

test('helm install local-pv: static volumes for pods, without CSI, as long as their PersistentVolumes exist', async () => {
  const statusOf = async (name: string) => {
    const { metadata } = (await cluster.kube.get(persistentVolumes, name)) ?? {};
    return metadata?.annotations?.[localPvAnnotations.status];
  };
  await kubectl('label', 'node', cluster.nodes[0]?.name ?? '', 'node-id.k8s.portavita.net/nodeid=node01');
  await manage('install', 'local-pv', dirOf('local-pv'), '--set=image.pullPolicy=Never', '--wait');
  const example = await readFile(join(chartDir, '..', '..', 'examples', 'local-pv', 'pod.yaml'), 'utf8');
  const manifest = join(cluster.dir, 'pod.yaml');
  await writeFile(manifest, example.replaceAll('storage_bulk', volumeGroup));
  await kubectl('apply', `--filename=${manifest}`);
  await kubectl('wait', '--for=condition=Ready', 'pod/static', '--timeout=300s');
  assert.equal(await statusOf('static-node01'), 'Processed');

  const twoPerNode = `--set=storageClass=pair,size=64Mi,vg=${volumeGroup},nodes={node01},volumesPerNode=2`;
  await manage('install', 'pair', dirOf('local-volumes'), twoPerNode);
  for (const name of ['pair-node01-1', 'pair-node01-2']) {
    await eventually(`${name} is processed`, async () => (await statusOf(name)) === 'Processed');
  }
  await manage('uninstall', 'pair');
  await kubectl('delete', `--filename=${manifest}`, '--timeout=300s');
  const none = async () => (await cluster.kube.list(persistentVolumes)).items.length === 0;
  await eventually('the volumes are gone', none);
});
