import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type LogicalVolume, logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import { Informer } from '../../src/kube/informer.ts';
import { nodes, persistentVolumeClaims, persistentVolumes, storageClasses } from '../../src/kube/resource.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const plugin = kubectlMoorage({ columns: 120, colours: false });
const moorage = (...words: string[]) => runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });
const gibibyte = 1024n ** 3n;
/** The disks of node-a, which reconciles as its agent does. */
const disk = new InMemoryPool('ssd', 100n * gibibyte);

await cluster.kubectl('apply', '-f', join(import.meta.dirname, '../../deploy/crd.yaml'));
await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
await newNamespace(api, 'shop');
await admin.create(nodes, { metadata: { name: 'node-a' } });
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
  parameters: { 'topolvm.io/device-class': 'ssd' },
});
const collaborators = { client: admin, clock: systemClock, log: silentLog };
const volumes = new Informer<LogicalVolume>({ ...collaborators, resource: logicalVolumes });
const work = volumeWork({ ...collaborators, volumes, pools: new Pools([disk], 'ssd') });
const workers = new Workers([work], { ...collaborators, random: Math.random });
workers.start();
volumes.start();
after(async () => {
  await workers.stop(0);
  await volumes.stop();
});

/** A retained volume whose claim was deleted, as Kubernetes leaves it. */
async function released(claim: string): Promise<string> {
  const name = `pvc-${claim}`;
  const { metadata } = await admin.create(logicalVolumes, {
    metadata: { name, annotations: { 'moorage.dev/claim': `shop/${claim}` } },
    spec: { name, nodeName: 'node-a', size: '1Gi', deviceClass: 'ssd' },
  });
  await eventually('the volume is created', async () => (await admin.get(logicalVolumes, name))?.status?.volumeID);
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: 'local',
      persistentVolumeReclaimPolicy: 'Retain',
      csi: { driver: driverName, volumeHandle: metadata.uid, fsType: 'ext4' },
      claimRef: { namespace: 'shop', name: claim, uid: 'of-a-deleted-claim' },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: ['node-a'] }] }],
        },
      },
    },
  });
  await phase(name, 'Released');
  return name;
}

const phase = (name: string, wanted: string) =>
  eventually(`${name} is ${wanted}`, async () => (await admin.get(persistentVolumes, name))?.status?.phase === wanted);
const boundTo = (claim: string, name: string) =>
  eventually(`claim ${claim} is bound to ${name}`, async () => {
    const { spec, status } = (await admin.get(persistentVolumeClaims, claim, { namespace: 'shop' })) ?? {};
    return spec?.volumeName === name && status?.phase === 'Bound';
  });

test('reattach: a released volume returns to its claim, which is created and bound without a pod', async () => {
  const name = await released('data-db-0');
  const shown = await moorage('reattach', `pv/${name}`, '--dry-run');
  assert.match(shown, /kind: PersistentVolumeClaim\nmetadata:\n {2}name: data-db-0/);
  assert.doesNotMatch(shown, /managedFields/);
  assert.equal(await admin.get(persistentVolumeClaims, 'data-db-0', { namespace: 'shop' }), undefined);
  assert.match(await moorage('reattach', `pv/${name}`), /belongs to claim shop\/data-db-0/);
  await boundTo('data-db-0', name);
  await phase(name, 'Bound');
  await assert.rejects(moorage('reattach', name), /bound to claim shop\/data-db-0, which still exists/);
});

test('reattach: a claim that waits gets the volume, and a StatefulSet the claim of the same pod', async () => {
  const name = await released('data-web-1');
  await admin.create(persistentVolumeClaims, {
    metadata: { name: 'other', namespace: 'shop' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'local',
      resources: { requests: { storage: '512Mi' } },
    },
  });
  await moorage('reattach', name, '--to', 'shop/other');
  await boundTo('other', name);

  const second = await released('data-queue-1');
  await cluster.kubectl('-n', 'shop', 'create', '-f', await file('set.yaml', statefulSet('queue')));
  assert.match(await moorage('reattach', second, '-n', 'shop', '--statefulset', 'queue'), /claim shop\/data-queue-1/);
  await boundTo('data-queue-1', second);
  const ofAnother = await released('data-queue-backup-0');
  const shown = await moorage('reattach', ofAnother, '-n', 'shop', '--statefulset', 'queue', '--dry-run').catch(String);
  assert.match(shown, /every claim of StatefulSet queue has a volume/);
  await assert.rejects(moorage('reattach', second, '--to', 'a/b', '--statefulset', 'queue'), /not both/);
  await assert.rejects(moorage('reattach', second, '--to', 'a/b/c'), /use <namespace>\/<claim> or <claim>/);
  await assert.rejects(moorage('reattach', 'pv/nothing'), /there is no PersistentVolume nothing; see kubectl get pv/);
  const toSet = (set: string) => moorage('reattach', ofAnother, '-n', 'shop', '--statefulset', set);
  await assert.rejects(toSet('absent'), /there is no StatefulSet shop\/absent; choose its namespace with -n/);
  await cluster.kubectl('-n', 'shop', 'create', '-f', await file('two.yaml', statefulSet('two', ['data', 'logs'])));
  await assert.rejects(toSet('two'), /StatefulSet two has 2 claim templates; name the claim with --to/);
});

test('reattach: a lost LogicalVolume is built again, and its node adopts the volume', async () => {
  const name = await released('lost');
  const before = await admin.get(logicalVolumes, name);
  const annotations = { 'topolvm.io/pendingdeletion': 'true' };
  const body = { metadata: { finalizers: null, annotations } };
  await admin.patch(logicalVolumes, name, { type: 'merge', body });
  await admin.delete(logicalVolumes, name);
  await moorage('reattach', name);
  await boundTo('lost', name);
  const after = await admin.get(logicalVolumes, name);
  assert.notEqual(after?.metadata.uid, before?.metadata.uid);
  assert.equal(after?.status?.volumeID, before?.status?.volumeID);
  assert.equal(after?.status?.currentSize, '1Gi');
});

let imported = '';
test('import: volumes of a lost cluster come back with their claims, and a second import changes nothing', async () => {
  const tags = ['moorage.dev/volume=pvc-old', 'moorage.dev/claim=shop/old', 'moorage.dev/filesystem=ext4'];
  await disk.create({ id: 'lv-old', sizeBytes: gibibyte, tags: ['moorage.dev/created', ...tags] });
  await disk.create({ id: 'plain', sizeBytes: gibibyte, tags: [] });
  const volume = (name: string, tags: readonly string[]) => ({ name, deviceClass: 'ssd', size: '1Gi', tags });
  await admin.create(nodeStorages, {
    metadata: { name: 'node-a' },
    status: {
      nodeUID: 'uid',
      updatedAt: new Date().toISOString(),
      pools: [{ deviceClass: 'ssd', default: true, health: 'Healthy' }],
      erasures: { total: 0, volumes: [] },
      orphans: { total: 2, volumes: [volume('lv-old', tags), volume('plain', [])] },
      versions: {},
      features: {},
    },
  });
  imported = await moorage('import', '--node', 'node-a', '--with-claims', '--volume', 'plain');
  assert.match(imported, /storageClassName: local/);
  const path = await file('import.yaml', imported);
  assert.equal(
    await moorage('import', '-f', path),
    [
      'LogicalVolume pvc-old created',
      'PersistentVolume pvc-old created',
      'PersistentVolumeClaim shop/old created',
      'LogicalVolume import-node-a-plain created',
      'PersistentVolume import-node-a-plain created',
    ].join('\n'),
  );
  await boundTo('old', 'pvc-old');
  assert.equal((await admin.get(logicalVolumes, 'pvc-old'))?.status?.volumeID, 'lv-old');
  assert.ok(disk.get('plain')?.tags.includes('moorage.dev/adopted'));
  assert.doesNotMatch(await moorage('import', '-f', path), /created/);
  assert.equal(await moorage('import', '--node', 'node-a'), '', 'although the report still lists them');
});

test('import: what must not be created is refused before anything is written', async () => {
  const rows: readonly [string, RegExp][] = [
    ['kind: Pod\nmetadata: {name: a}', /use only LogicalVolumes, PersistentVolumes and claims/],
    ['kind: LogicalVolume\nmetadata: {name: a}', /LogicalVolume a needs the annotation moorage.dev\/adopt/],
    ['kind: PersistentVolume\nmetadata: {name: a}\nspec: {hostPath: {path: /}}', /driver .* must be topolvm.io/],
    [
      'kind: PersistentVolume\nmetadata: {name: a}\nspec: {csi: {driver: topolvm.io, volumeHandle: x}}',
      /PersistentVolume a needs a spec.claimRef; without one, any claim could get its data: print the objects again/,
    ],
    ['kind: [', /document 1: /],
  ];
  for (const [text, reason] of rows) {
    await assert.rejects(moorage('import', '-f', await file('bad.yaml', text)), reason);
  }
  const other = 'kind: PersistentVolume\nmetadata: {name: pvc-old}\nspec: {csi: {driver: topolvm.io, volumeHandle: x}}';
  const claimRef = 'claimRef: {namespace: shop, name: old}';
  const taken = `apiVersion: v1\n${other.replace('spec: {', `spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, ${claimRef}, `)}`;
  await assert.rejects(
    moorage('import', '-f', await file('taken.yaml', taken)),
    /exists and stands for another volume/,
  );
  await assert.rejects(moorage('import'), /use either --node or -f/);
  await assert.rejects(moorage('import', '--node', 'nowhere'), /node nowhere has not reported its storage/);
  await assert.rejects(moorage('import', '-f', '/nothing'), /-f \/nothing: /);
});

test('import: a volume that cannot be adopted stops the import with the reason', async () => {
  const path = await file(
    'wrong.yaml',
    imported.replaceAll('pvc-old', 'pvc-wrong').replaceAll('lv-old', 'lv-wrong').replaceAll('name: old', 'name: wrong'),
  );
  await assert.rejects(
    moorage('import', '-f', path),
    /volume lv-wrong is not on the disks of this node.*kubectl moorage orphans shows what to do with LogicalVolume pvc-wrong/,
  );
  assert.equal(await admin.get(persistentVolumes, 'pvc-wrong'), undefined);
});

test('orphans: each is listed with the command that resolves it, and is none afterwards', async () => {
  const name = await released('forgotten');
  await admin.create(nodes, { metadata: { name: 'node-b' } });
  const volume = (name: string, tags: readonly string[]) => ({ name, deviceClass: 'ssd', size: '1Gi', tags });
  await admin.create(nodeStorages, {
    metadata: { name: 'node-b' },
    status: {
      ...{ nodeUID: 'uid', updatedAt: new Date().toISOString(), pools: [], erasures: { total: 0, volumes: [] } },
      orphans: {
        total: 4,
        volumes: [
          volume('lost-lv', []),
          volume('plain', []),
          volume('csi-1', ['ephemeral', 'moorage.dev/pod=p1']),
          { name: 'unserved', volumeGroup: 'old-vg', size: '1Gi', tags: ['moorage.dev/created'] },
        ],
      },
      ...{ versions: {}, features: {} },
    },
  });
  const shown = await moorage('orphans');
  const row = `Released +pvc-forgotten +node-a +1 GiB +\\d+s +shop/forgotten`;
  const commands = ` +keep: +kubectl moorage reattach pv/${name}\n +remove: kubectl moorage purge pv/${name}`;
  assert.match(shown, new RegExp(`^${row}\n${commands}$`, 'm'));
  assert.match(shown, /^DiskOnly +lost-lv +node-b .*\n.* import --node node-b --volume lost-lv > node-b.yaml/m);
  assert.match(
    shown,
    /^InlineLeftover +csi-1 +node-b .* pod p1\n +remove: moorage volume rm csi-1 {3}# in the moorage-node pod of node-b$/m,
  );
  assert.match(shown, /^ClassGone +unserved +node-b .*\n +first: +add {name: old-vg, volume-group: old-vg} to the/m);
  const { items } = JSON.parse(await moorage('orphans', '-o', 'json'));
  const found = items.find((item: { name: string }) => item.name === name);
  assert.deepEqual([found.kind, found.sizeBytes, found.lastOwner], ['Released', 2 ** 30, 'shop/forgotten']);
  assert.doesNotMatch(await moorage('import', '--node', 'node-b', '--volume', 'lost-lv'), /csi-1/);

  await assert.rejects(
    moorage('import', '--node', 'node-b', '--volume', 'plain'),
    /--volume plain: \w+ import-node-a-plain of node node-a has the same volume ID.*lvrename first/,
  );
  const printedBefore = await file('before.yaml', imported.replaceAll('node-a', 'node-b'));
  await assert.rejects(
    moorage('import', '-f', printedBefore),
    /^NameInUse: LogicalVolume pvc-old: .* of node node-a has/,
  );

  await moorage('reattach', `pv/${name}`);
  await boundTo('forgotten', name);
  assert.doesNotMatch(await moorage('orphans'), /pvc-forgotten/);
});

test('purge: says what would be lost, and removes only the volume that is confirmed', async () => {
  const name = await released('trash');
  const policy = async () => (await admin.get(persistentVolumes, name))?.spec?.persistentVolumeReclaimPolicy;
  assert.match(
    await moorage('purge', `pv/${name}`),
    /would remove volume pvc-trash \(1Gi, last used by claim shop\/trash\) on node node-a\.\n.* --confirm pvc-trash$/,
  );
  await assert.rejects(moorage('purge', name, '--confirm', 'another'), /--confirm another: the name is pvc-trash/);
  assert.equal(await policy(), 'Retain');
  const purged = moorage('purge', name, '--confirm', name);
  await eventually('the provisioner may delete it', async () => (await policy()) === 'Delete');
  await admin.delete(persistentVolumes, name); // as csi-provisioner does, after DeleteVolume
  assert.match(await purged, /removed volume pvc-trash/);
});

test('purge: a volume on an unknown node, or of another driver, is refused', async () => {
  await admin.create(persistentVolumes, {
    metadata: { name: 'nowhere' },
    spec: {
      ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, storageClassName: 'local' },
      persistentVolumeReclaimPolicy: 'Retain',
      csi: { driver: driverName, volumeHandle: 'nothing' },
    },
  });
  await assert.rejects(moorage('purge', 'nowhere', '--confirm', 'nowhere'), /names no node and has no LogicalVolume/);
  await admin.create(persistentVolumes, {
    metadata: { name: 'foreign' },
    spec: {
      ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, storageClassName: 'local' },
      csi: { driver: 'example.com', volumeHandle: 'nothing' },
    },
  });
  await assert.rejects(moorage('purge', 'foreign', '--confirm', 'foreign'), /foreign is not a volume of Moorage/);
});

test('purge: a volume that was never bound becomes Released, so that csi-provisioner deletes it', async () => {
  const asImportedBefore = { type: 'merge', body: { spec: { claimRef: null } } } as const;
  await admin.patch(persistentVolumes, 'import-node-a-plain', asImportedBefore);
  await phase('import-node-a-plain', 'Available');
  const purged = moorage('purge', 'import-node-a-plain', '--confirm', 'import-node-a-plain');
  await phase('import-node-a-plain', 'Released');
  const { spec } = (await admin.get(persistentVolumes, 'import-node-a-plain')) ?? {};
  assert.equal(spec?.persistentVolumeReclaimPolicy, 'Delete');
  await admin.delete(persistentVolumes, 'import-node-a-plain');
  await purged;
});

test('import: a volume that lost only its PersistentVolume gets it back', async () => {
  const name = await released('lost-pv');
  await admin.delete(persistentVolumes, name);
  await eventually('it is gone', async () => (await admin.get(persistentVolumes, name)) === undefined);
  const path = await file('pv.yaml', await moorage('import', '--node', 'node-a', '--with-claims'));
  const said = await moorage('import', '-f', path);
  assert.match(said, /^PersistentVolume pvc-lost-pv created$/m);
  assert.doesNotMatch(said, /LogicalVolume pvc-lost-pv/);
  await boundTo('lost-pv', name);
});

test('purge: a volume whose node is gone loses its objects, and one that is bound is refused', async () => {
  const name = await released('left');
  await cluster.kubectl('delete', 'node', 'node-a');
  assert.match(await moorage('purge', name), /on node node-a, which is gone: its disks are not erased/);
  const finalizers = ['topolvm.io/logicalvolume', 'example.com/backup'];
  await admin.patch(logicalVolumes, name, { type: 'merge', body: { metadata: { finalizers } } });
  const purged = moorage('purge', name, '--confirm', name);
  await eventually('only the finalizer of somebody else is left', async () => {
    const { metadata } = (await admin.get(logicalVolumes, name)) ?? {};
    return metadata?.deletionTimestamp !== undefined && metadata.finalizers?.join() === 'example.com/backup';
  });
  await admin.patch(logicalVolumes, name, { type: 'merge', body: { metadata: { finalizers: null } } });
  await eventually('its LogicalVolume is gone', async () => (await admin.get(logicalVolumes, name)) === undefined);
  await admin.delete(persistentVolumes, name);
  await purged;
  assert.ok(
    disk.list().some(({ tags }) => tags.includes(`moorage.dev/volume=${name}`)),
    'the data is still there',
  );
  await assert.rejects(moorage('purge', 'pvc-data-db-0'), /bound to claim shop\/data-db-0; delete the claim first/);
});

async function file(name: string, text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'recovery-')), name);
  await writeFile(path, text);
  return path;
}

function statefulSet(name: string, templates: readonly string[] = ['data']): string {
  const metadata = { name };
  const labels = { app: name };
  const claim = {
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'local',
    resources: { requests: { storage: '1Gi' } },
  };
  return JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata,
    spec: {
      serviceName: name,
      replicas: 0,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'none' }] } },
      volumeClaimTemplates: templates.map((template) => ({ metadata: { name: template }, spec: claim })),
    },
  });
}
