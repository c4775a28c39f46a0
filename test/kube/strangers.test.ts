import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { localPvAnnotations, localPvFinalizer, localPvOptions } from '../../src/api/local-pv.ts';
import { type LogicalVolume, logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, nodeFinalizer, topologyKey } from '../../src/api/names.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import { runController } from '../../src/controller/controller-process.ts';
import { manifestOf } from '../../src/controller/moves/persistent-volume-switch.ts';
import { tombstones } from '../../src/controller/tombstones/tombstones.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  nodes,
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  statefulSets,
  storageClasses,
} from '../../src/kube/resource.ts';
import { claimingSet } from '../../src/kube/stateful-set.ts';
import { handedOver, staticNode } from '../../src/node/local-pv/testing/static-node.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { createVolume, eventsOf, leadRemovals, leadWith, reporting } from './removed-nodes.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const plugin = kubectlMoorage({ columns: 120, colours: false });
const moorage = (...words: string[]) => runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });
const gibibyte = 1024n ** 3n;
const owners = await newNamespace(api, 'shop');
const strangers = await newNamespace(api, 'strangers');

/** The disks of node-a, which reconciles as its agent does. */
const disk = new InMemoryPool('ssd', 100n * gibibyte);

await cluster.kubectl('apply', '-f', join(import.meta.dirname, '../../deploy/crd.yaml'));
await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
await cluster.kubectl('-n', owners, 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
await admin.create(nodes, { metadata: { name: 'node-a' } });
// Immediate: a claim without a pod gets any volume that fits.
await admin.create(storageClasses, { metadata: { name: 'local' }, provisioner: driverName });
const collaborators = { client: admin, clock: systemClock, log: silentLog };
const fieldSelector = 'spec.nodeName=node-a';
const volumes = new Informer<LogicalVolume>({ ...collaborators, resource: logicalVolumes, fieldSelector });
const work = volumeWork({ ...collaborators, volumes, pools: new Pools([disk], 'ssd') });
const workers = new Workers([work], { ...collaborators, random: Math.random });
workers.start();
volumes.start();
after(async () => {
  await workers.stop(0);
  await volumes.stop();
});

const phase = (name: string, wanted: string) =>
  eventually(`${name} is ${wanted}`, async () => (await admin.get(persistentVolumes, name))?.status?.phase === wanted);
const claimNamed = (name: string, namespace = owners) => admin.get(persistentVolumeClaims, name, { namespace });
const boundTo = (claim: string, volume: string) =>
  eventually(`claim ${claim} is bound to ${volume}`, async () => {
    const { spec, status } = (await claimNamed(claim)) ?? {};
    return spec?.volumeName === volume && status?.phase === 'Bound';
  });

let looks = 0;
/** Kubernetes' binder has looked at everything that was written before: it binds one claim after the other. */
async function binderHasLooked(): Promise<void> {
  const name = `look-${looks++}`;
  const wanted = { accessModes: ['ReadWriteOnce'], storageClassName: name };
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: { ...wanted, capacity: { storage: '1Mi' }, hostPath: { path: '/nothing' } },
  });
  await phase(name, 'Available');
  await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace: strangers },
    spec: { ...wanted, resources: { requests: { storage: '1Mi' } } },
  });
  await phase(name, 'Bound');
}

/** Claims that fit, but are not of its owner: with any name, with the name of the volume, and with the name of the last claim. */
async function strangersDoNotGet(name: string, { isReserved = false } = {}): Promise<void> {
  await binderHasLooked();
  const { spec } = (await admin.get(persistentVolumes, name)) ?? assert.fail(`there is no ${name}`);
  const fitting = {
    accessModes: spec?.accessModes ?? [],
    storageClassName: spec?.storageClassName ?? '',
    volumeMode: spec?.volumeMode ?? '',
    resources: { requests: { storage: spec?.capacity?.['storage'] ?? '' } },
  };
  const claim = (claimName: string, namespace: string, volumeName?: string): PersistentVolumeClaim => ({
    metadata: { name: claimName, namespace },
    spec: { ...fitting, ...(volumeName && { volumeName }) },
  });
  const { namespace: lastNamespace = owners, name: last = 'none' } = spec?.claimRef ?? {};
  const claims = [
    claim(`${name}-any`, strangers),
    claim(`${name}-named`, strangers, name),
    claim(last, strangers, name),
    ...(isReserved || (await claimNamed(last, lastNamespace)) ? [] : [claim(last, lastNamespace, name)]),
  ];
  for (const each of claims) await admin.create(persistentVolumeClaims, each);
  await binderHasLooked();
  const { spec: now } = (await admin.get(persistentVolumes, name)) ?? {};
  assert.deepEqual(now?.claimRef, spec?.claimRef, `PersistentVolume ${name}`);
  for (const { metadata } of claims) {
    const { name: claimName = '', namespace = '' } = metadata ?? {};
    assert.equal((await claimNamed(claimName, namespace))?.status?.phase, 'Pending', `${namespace}/${claimName}`);
    await admin.delete(persistentVolumeClaims, claimName, { namespace });
  }
  await eventually('the claims are gone', async () => {
    const found = claims.map(({ metadata }) => claimNamed(metadata?.name ?? '', metadata?.namespace));
    return (await Promise.all(found)).every((each) => each === undefined);
  });
}

const printed = async (text: string) => {
  const path = join(await mkdtemp(join(tmpdir(), 'strangers-')), 'objects.yaml');
  await writeFile(path, text);
  return path;
};

interface OnDisk {
  readonly id: string;
  readonly tags: readonly string[];
}

const tagged = (id: string, claim: string): OnDisk => ({
  id,
  tags: ['moorage.dev/created', `moorage.dev/volume=pvc-${id}`, `moorage.dev/claim=${owners}/${claim}`],
});

/** Volumes on node-a without objects, as after `force` and the return of the node; what `import` prints for them. */
async function printImport(volumes: readonly OnDisk[], ...words: readonly string[]): Promise<string> {
  for (const { id, tags } of volumes) await disk.create({ id, sizeBytes: gibibyte, tags: [...tags] });
  const found = volumes.map(({ id, tags }) => ({ name: id, deviceClass: 'ssd', size: '1Gi', tags: [...tags] }));
  await admin.delete(nodeStorages, 'node-a');
  await admin.create(nodeStorages, {
    metadata: { name: 'node-a' },
    status: {
      ...{ nodeUID: 'uid', updatedAt: new Date().toISOString(), erasures: { total: 0, volumes: [] } },
      pools: [{ deviceClass: 'ssd', default: true, health: 'Healthy' }],
      orphans: { total: found.length, volumes: found },
      ...{ versions: {}, features: {} },
    },
  });
  return moorage('import', '--node', 'node-a', ...words);
}

async function persistentVolume(name: string, changes: object = {}): Promise<void> {
  const expression = { key: topologyKey, operator: 'In', values: ['node-a'] };
  const { metadata } = await admin.create(logicalVolumes, {
    metadata: { name },
    spec: { name, nodeName: 'node-a', size: '1Gi', deviceClass: 'ssd' },
  });
  await eventually('the volume is created', async () => disk.get(metadata.uid) !== undefined);
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: {
      ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, storageClassName: 'local' },
      persistentVolumeReclaimPolicy: 'Retain',
      csi: { driver: driverName, volumeHandle: metadata.uid },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
      ...changes,
    },
  });
}

test('an imported volume is for nobody until it is reattached', async () => {
  await persistentVolume('pvc-new', { claimRef: { namespace: owners, name: 'newer' } });
  await admin.create(persistentVolumeClaims, {
    metadata: { name: 'newer', namespace: owners },
    spec: {
      ...{ accessModes: ['ReadWriteOnce'], storageClassName: 'local', volumeName: 'pvc-new' },
      resources: { requests: { storage: '1Gi' } },
    },
  });
  await boundTo('newer', 'pvc-new');
  const plain = { id: 'plain', tags: [] };
  const text = await printImport([tagged('known', 'known'), plain, tagged('older', 'newer')], '--volume', 'plain');
  await moorage('import', '-f', await printed(text));
  const names = ['import-node-a-plain', 'pvc-known', 'pvc-older'];
  for (const name of names) await strangersDoNotGet(name);
  for (const name of names) await phase(name, 'Released');

  await moorage('reattach', 'pv/pvc-known');
  await boundTo('known', 'pvc-known');
  await assert.rejects(moorage('reattach', 'import-node-a-plain'), /it belonged to no claim; name one with --to/);
  await moorage('reattach', 'import-node-a-plain', '--to', `${owners}/plain`);
  await boundTo('plain', 'import-node-a-plain');
  await moorage('reattach', 'pvc-older', '--to', `${owners}/older`);
  await boundTo('older', 'pvc-older');
});

test('a volume that was imported with its claim is for that claim, also if the import is interrupted', async () => {
  const text = await printImport([tagged('returned', 'returned')], '--with-claims');
  const documents = text.split('---\n');
  assert.equal(documents.length, 3);
  await moorage('import', '-f', await printed(documents.slice(0, 2).join('---\n')));
  await strangersDoNotGet('pvc-returned', { isReserved: true });
  await moorage('import', '-f', await printed(text));
  await boundTo('returned', 'pvc-returned');
});

test('a volume that is being purged is for nobody', async () => {
  const text = await printImport([{ id: 'trash', tags: [] }], '--volume', 'trash');
  const name = 'import-node-a-trash';
  await moorage('import', '-f', await printed(text));
  const purged = moorage('purge', name, '--confirm', name);
  await phase(name, 'Released');
  await strangersDoNotGet(name);
  await admin.delete(persistentVolumes, name); // as csi-provisioner does, after DeleteVolume
  await purged;
});

test('a volume that an earlier version imported can be reattached', async () => {
  await persistentVolume('available');
  await phase('available', 'Available');
  await moorage('reattach', 'available', '--to', `${owners}/available`);
  await boundTo('available', 'available');
  await persistentVolume('reserved', { claimRef: { namespace: owners, name: 'reserved' } });
  await strangersDoNotGet('reserved', { isReserved: true });
  await moorage('reattach', 'reserved');
  await boundTo('reserved', 'reserved');
});

test('a retained volume that was given up with force is for nobody', async (t) => {
  const watches = {
    claims: new Informer({ ...collaborators, resource: persistentVolumeClaims, project: watchedClaim }),
    moves: new Informer({ ...collaborators, resource: volumeMoves }),
    sets: new Informer({ ...collaborators, resource: statefulSets, project: claimingSet }),
  };
  leadWith(t, watches, tombstones({ ...reporting(admin), ...watches }));
  await createVolume(admin, 'forced', { node: 'node-a', namespace: owners, reclaimPolicy: 'Retain' });
  await phase('forced', 'Bound');
  await admin.delete(pods, 'forced', { namespace: owners, gracePeriodSeconds: 0 }); // no kubelet would end it
  await moorage('drop', 'pvc/forced', '-n', owners, '--yes', '--wait=false');
  await phase('forced', 'Released');
  await strangersDoNotGet('forced');
  await moorage('reattach', 'forced');
  await boundTo('forced', 'forced');
});

test('a volume that is kept when its Node is removed is for nobody, nor is one whose move ends without its claim', async (t) => {
  leadRemovals(t, admin);
  await admin.create(nodes, { metadata: { name: 'leaving', finalizers: [nodeFinalizer] } });
  await createVolume(admin, 'kept', { node: 'leaving', namespace: owners, annotation: 'keep' });
  await phase('kept', 'Bound');
  const moved = manifestOf((await admin.get(persistentVolumes, 'kept')) ?? assert.fail());
  await admin.delete(pods, 'kept', { namespace: owners, gracePeriodSeconds: 0 }); // no kubelet would end it
  await admin.delete(nodes, 'leaving');
  // Until then, claims that name the volume are deleted.
  await eventually('the Node is gone', async () => (await admin.get(nodes, 'leaving')) === undefined);
  await phase('kept', 'Released');
  await strangersDoNotGet('kept');

  await admin.delete(persistentVolumes, 'kept');
  await eventually('it is gone', async () => (await admin.get(persistentVolumes, 'kept')) === undefined);
  const saved = JSON.parse(moved) as PersistentVolume;
  await admin.create(persistentVolumes, {
    ...saved,
    spec: { ...saved.spec, persistentVolumeReclaimPolicy: 'Retain' }, // or csi-provisioner would delete it
  });
  await phase('kept', 'Released');
  await strangersDoNotGet('kept');
  await moorage('reattach', 'kept');
  await boundTo('kept', 'kept');
});

test('a static volume that keeps its data is for nobody until it is reattached, and one that was emptied is for all', async (t) => {
  const stop = new AbortController();
  const stopped = runController(
    {
      ...{ csi: false, csiSocket: '', localPv: true, localPvMountBase: '/mnt/pv', localPvDefaults: '' },
      ...{ metricsAddress: '127.0.0.1:0', secureMetricsServer: false, enableWebhooks: false, evictionWebhook: false },
      ...{ webhookAddress: '', certDir: '', webhookService: '', skipNodeFinalize: false, startupTaint: '' },
      ...{ leaderElection: false, leaderElectionId: '', leaderElectionNamespace: '', leaseDurationMs: 0 },
      ...{ renewDeadlineMs: 0, retryPeriodMs: 0, freshNodeCapacity: new Map(), version: 'test' },
    },
    { client: admin, clock: systemClock, log: silentLog },
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await stopped;
  });
  await admin.create(nodes, { metadata: { name: 'a', labels: { 'kubernetes.io/hostname': 'a' } } });
  const { pool } = staticNode(t, { releases: true, client: admin });
  const expression = { key: 'kubernetes.io/hostname', operator: 'In', values: ['a'] };
  const emptied = () => pool.emptied.map(({ id }) => id);

  for (const [name, options] of [
    ['emptied', { [localPvOptions.autoRelease]: 'true' }],
    ['released', { [localPvOptions.autoRelease]: 'false' }],
    ['kept-data', { [localPvOptions.autoRelease]: 'true', [localPvOptions.onRelease]: 'keep' }],
  ] as const) {
    const { metadata, spec } = handedOver({ annotations: options });
    await admin.create(persistentVolumes, {
      metadata: { ...metadata, name },
      spec: {
        ...{ ...spec, accessModes: ['ReadWriteOnce'], storageClassName: name, local: { path: `/mnt/pv/${name}` } },
        persistentVolumeReclaimPolicy: 'Retain',
        nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
      },
    });
    await eventually('the volume is processed', async () => {
      const { annotations = {} } = (await admin.get(persistentVolumes, name))?.metadata ?? {};
      return annotations[localPvAnnotations.status] === 'Processed';
    });
    const wanted = {
      ...{ accessModes: ['ReadWriteOnce'], storageClassName: name },
      resources: { requests: { storage: '64Mi' } },
    };
    await admin.create(persistentVolumeClaims, { metadata: { name, namespace: owners }, spec: wanted });
    await boundTo(name, name);
    await admin.delete(persistentVolumeClaims, name, { namespace: owners });
    if (name === 'emptied') {
      await phase(name, 'Available');
      assert.deepEqual(emptied(), ['emptied']);
      await admin.create(persistentVolumeClaims, { metadata: { name, namespace: strangers }, spec: wanted });
      await phase(name, 'Bound');
      continue;
    }
    if (name === 'kept-data') {
      await eventually('an Event says so', async () =>
        (await eventsOf(admin, 'PersistentVolume', name)).some((event) => event.startsWith('DataKept: ')),
      );
    }
    await strangersDoNotGet(name);
    await phase(name, 'Released');
    const shown = await moorage('orphans');
    assert.match(shown, new RegExp(`^Released +${name} .*\\n +keep: +kubectl moorage reattach pv/${name}$`, 'm'));
    await moorage('reattach', `pv/${name}`);
    await boundTo(name, name);
    assert.deepEqual(emptied(), ['emptied']);
    assert.ok((await admin.get(persistentVolumes, name))?.metadata.finalizers?.includes(localPvFinalizer));
  }
});
