import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { driverName, heldByAnnotation } from '../../../src/api/names.ts';
import type { ReasonCode } from '../../../src/explain/explanation.ts';
import { csiDrivers, pods } from '../../../src/kube/resource.ts';
import { Cluster } from '../../../worlds/cluster/cluster.ts';
import { type ClusterNode, thin, volumeGroup } from '../../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../../worlds/cluster/moorage.ts';
import { values } from '../../../worlds/cluster/values.ts';
import { eventually } from '../../../worlds/host/eventually.ts';
import { Questions } from '../../kube/why-questions.ts';
import { nothingLeft } from '../nothing-left.ts';
import { requestSnapshot } from '../snapshot.ts';
import { TestNamespace } from '../test-namespace.ts';

const data = { claims: { '/data': 'data' } };

let cluster: Cluster;
let moorage: Moorage;
let node: ClusterNode;

before(async () => {
  cluster = await Cluster.start({ nodes: 1 });
  node = cluster.node('a');
  const deviceClasses = values.lvmd.deviceClasses.map((each) =>
    each.name === 'thin' ? { ...each, erase: 'shred', 'erase-passes': 100 } : each,
  );
  moorage = await Moorage.install(cluster, { values: { ...values, lvmd: { deviceClasses } } });
});
after(() => cluster?.stop());

/** Waits until the reason is this one; returns its sentence. Some of Kubernetes' own deadlines are two minutes. */
async function becomes(code: ReasonCode, { name }: TestNamespace, word: string): Promise<string> {
  const questions = new Questions(cluster.kubeconfig, name);
  return questions.becomes(code, word, '', { timeoutMs: 400_000, explain: () => cluster.tails() });
}

const deviceOf = async (ns: TestNamespace) => `/dev/${volumeGroup}/${await ns.volumeId('data')}`;
const volumeNameOf = async (ns: TestNamespace) => (await ns.found('data'))?.spec?.volumeName ?? '';

/** A namespace with a volume that was used once. */
async function used(name: string, storageClass = 'moorage'): Promise<TestNamespace> {
  const ns = await TestNamespace.create(cluster, name);
  await ns.claim('data', { storageClass });
  await ns.pod('first', data);
  await ns.ready('first');
  await ns.deletePod('first');
  return ns;
}

test('its filesystem is damaged', async () => {
  const ns = await used('damaged');
  const device = await deviceOf(ns);
  await node.shell(`dd if=${device} of=/root/start bs=64k count=1; dd if=/dev/urandom of=${device} bs=64k count=1`);
  await ns.pod('reader', data);
  assert.match(
    await becomes('MountFailed', ns, 'pod/reader'),
    /^pod reader waits: (the volume of its claim data cannot be mounted|its volume cannot be mounted on node node-a): /,
  );
  await node.shell(`dd if=/root/start of=${device} bs=64k count=1`);
  await ns.ready('reader');
  await ns.empty();
});

test('its volume is no longer on the disks', async () => {
  const ns = await used('lost');
  await node.shell(`lvremove -fy ${(await deviceOf(ns)).slice('/dev/'.length)}`);
  await moorage.killAgent(node);
  await moorage.whenServing(node);
  await ns.pod('reader', data);
  assert.equal(
    await becomes('VolumeLost', ns, 'pod/reader'),
    'pod reader waits: node node-a no longer has the volume of its claim data on its disks; bring the disks back, or give the data up and restore a backup',
  );
  const pv = await volumeNameOf(ns);
  await ns.kubectl('delete', 'pod/reader', 'pvc/data');
  const unproven = await becomes('RemovalFailed', ns, `pv/${pv}`);
  assert.match(
    unproven,
    /cannot remove its volume: no device class that this node serves has volume .*held-by=<class>$/,
  );
  await cluster.kubectl('annotate', 'logicalvolume', pv, `${heldByAnnotation}=lvm`);
  await ns.empty();
});

test('the owner of its files is changed', async () => {
  const ns = await TestNamespace.create(cluster, 'owner');
  await ns.claim('data');
  await ns.pod('first', data);
  await ns.ready('first');
  await ns.sh('first', 'touch /data/file; sync');
  // The kubelet cannot change anything while the filesystem is frozen.
  const mount = (await node.shell(`findmnt -no TARGET -S ${await deviceOf(ns)} | head -1`)).trim();
  await node.shell(`fsfreeze -f ${mount}`);
  try {
    const first = await cluster.kube.get(pods, 'first', { namespace: ns.name });
    await cluster.kube.create(pods, {
      metadata: { name: 'second', namespace: ns.name },
      spec: { ...first?.spec, containers: first?.spec?.containers ?? [], securityContext: { fsGroup: 4242 } },
    });
    assert.equal(
      await becomes('PermissionsChanging', ns, 'pod/second'),
      'pod second waits: the kubelet changes the owner of every file of its volume; fsGroupChangePolicy: OnRootMismatch in the securityContext of the pod avoids this',
    );
  } finally {
    await node.shell(`fsfreeze -u ${mount}`);
  }
  await ns.ready('second');
  await ns.empty();
});

test('its volume is in use and cannot be removed', async () => {
  const ns = await used('held');
  const pv = await volumeNameOf(ns);
  const holder = (await node.shell(`sleep 100000 <${await deviceOf(ns)} >/dev/null 2>&1 & echo $!`)).trim();
  await ns.kubectl('delete', 'pvc', 'data');
  assert.match(
    await becomes('RemovalFailed', ns, `pv/${pv}`),
    new RegExp(`^PersistentVolume ${pv} waits: node node-a cannot remove its volume: volume \\S+ is still in use as `),
  );
  await node.shell(`kill ${holder}`);
  await ns.empty();
});

test('a snapshot of a class without snapshots fails', async () => {
  const ns = await used('snapshot');
  await requestSnapshot(cluster, ns, 'before', 'data');
  assert.match(
    await becomes('SnapshotFailed', ns, 'volumesnapshot/before'),
    /^VolumeSnapshot before waits: it cannot be created: .*device class lvm/,
  );
  await ns.empty();
});

test('the agent of its node does not run', async () => {
  const ns = await used('unserved');
  const daemonSet = ['-n', 'moorage-system', 'patch', 'daemonset', 'moorage-node', '--type=merge'];
  const select = (value: unknown) =>
    cluster.kubectl(
      ...daemonSet,
      '-p',
      JSON.stringify({ spec: { template: { spec: { nodeSelector: { off: value } } } } }),
    );
  await select('yes');
  await eventually('no agent is left', async () => (await moorage.agentsOn(node)).length === 0);
  await ns.pod('reader', data);
  assert.equal(
    await becomes('DriverNotRegistered', ns, 'pod/reader'),
    'pod reader waits: Moorage does not run on node node-a; start its agent there',
  );
  await select(null);
  await ns.ready('reader');
  await ns.empty();
});

test('the CSIDriver does not exist', async () => {
  const ns = await used('driverless');
  const driver = await cluster.kube.get(csiDrivers, driverName);
  assert.ok(driver);
  await cluster.kube.delete(csiDrivers, driverName);
  await ns.pod('reader', data);
  assert.equal(
    await becomes('CsiDriverMissing', ns, 'pod/reader'),
    "pod reader waits: the CSIDriver topolvm.io does not exist, so Kubernetes waits for an attacher that Moorage does not have; create it again from Moorage's chart",
  );
  const { name, labels = {}, annotations = {} } = driver.metadata;
  await cluster.kube.create(csiDrivers, { spec: driver.spec, metadata: { name, labels, annotations } });
  await ns.kubectl('delete', 'pod', 'reader', '--wait=false');
  await ns.empty();
});

test('its volume is being erased', async () => {
  const ns = await TestNamespace.create(cluster, 'erased');
  await ns.claim('data', { storageClass: 'moorage-thin' });
  await ns.pod('first', data);
  await ns.ready('first');
  await ns.sh('first', 'dd if=/dev/zero of=/data/file bs=1M count=60 2>/dev/null; sync'); // only what was written is erased
  await ns.deletePod('first');
  const erased = await volumeNameOf(ns);
  const volume = `${thin.volumeGroup}/${await ns.volumeId('data')}`;
  // As soon as it has begun, writes wait: a node reports every 30 s.
  const suspended = node.shell(
    `until lvs --noheadings -o lv_tags ${volume} | grep -q erase; do sleep 0.1; done; dmsetup suspend /dev/${volume}`,
  );
  await ns.kubectl('delete', 'pvc', 'data');
  await suspended;
  assert.match(
    await becomes('Erasing', ns, `pv/${erased}`),
    new RegExp(`^PersistentVolume ${erased} waits: its data is being erased on node node-a, \\d+ % done$`),
  );
  await node.shell(`dmsetup resume /dev/${volume}`);
  await ns.empty();
});

test('nothing is left on the node', () => nothingLeft(cluster, moorage));
