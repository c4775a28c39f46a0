import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { driverName } from '../../src/api/names.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { thin } from '../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { Topolvm } from '../../worlds/cluster/topolvm.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { takeSnapshot } from './snapshot.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const write = (path: string) =>
  `dd if=/dev/urandom of=${path} bs=64k count=32 2>/dev/null && sync && sha256sum <${path}`;
const blockSum = 'sync && dd if=/dev/xvda bs=64k count=32 2>/dev/null | sha256sum';
const mebibytes = 'df -m /data | tail -1 | tr -s " " | cut -d" " -f2';

/** One node is enough: the test is about which driver serves it. */
describe('from TopoLVM to Moorage and back', () => {
  let cluster: Cluster;
  let topolvm: Topolvm;
  let moorage: Moorage;
  let ns: TestNamespace;
  const sums: Record<string, string> = {};
  const step = story();

  before(async () => {
    cluster = await Cluster.start({ nodes: 1 });
    topolvm = await Topolvm.install(cluster);
    await cluster.kubectl('apply', '-f', join(deploy, 'snapshotclass.yaml'));
    for (const [name, parameters] of Object.entries(classes)) {
      await cluster.kube.create(storageClasses, {
        metadata: { name },
        provisioner: driverName,
        parameters,
        volumeBindingMode: 'WaitForFirstConsumer',
        allowVolumeExpansion: true,
      });
    }
    await topolvm.start();
    ns = await TestNamespace.create(cluster, 'shop');
  });
  after(() => cluster?.stop());

  const classes: Record<string, Record<string, string>> = {
    thick: { 'csi.storage.k8s.io/fstype': 'ext4' },
    'thin-xfs': { 'topolvm.io/device-class': 'thin', 'csi.storage.k8s.io/fstype': 'xfs' },
  };
  const pods = {
    thick: { claims: { '/data': 'thick' } },
    thin: { claims: { '/data': 'thin' } },
    block: { devices: { '/dev/xvda': 'block' } },
  };

  step('TopoLVM creates volumes and a snapshot', async () => {
    await ns.claim('thick', { storageClass: 'thick' });
    await ns.claim('thin', { storageClass: 'thin-xfs', size: '300Mi' });
    await ns.claim('block', { storageClass: 'thick', volumeMode: 'Block' });
    await ns.claim('doomed', { storageClass: 'thick', node: 'node-a' });
    for (const [name, pod] of Object.entries(pods)) await ns.pod(name, pod);
    for (const name of Object.keys(pods)) await ns.ready(name);
    sums['thick'] = await ns.sh('thick', write('/data/file'));
    sums['snapshot'] = await ns.sh('thin', write('/data/file'));
    sums['block'] = await ns.sh('block', `dd if=/dev/urandom of=/dev/xvda bs=64k count=32 2>/dev/null && ${blockSum}`);
    await ns.volumeId('doomed');
    await takeSnapshot(cluster, ns, 'by-topolvm', 'thin');
    sums['thin'] = await ns.sh('thin', write('/data/file'));
  });

  step('Moorage replaces TopoLVM while the pods keep running', async () => {
    await topolvm.stop();
    await cluster.kubectl('delete', 'csidriver', driverName); // its lifecycle modes are immutable
    moorage = await Moorage.install(cluster, { takeOver: true });
    await intact();
  });

  step('Moorage grows, mounts, restores, copies and removes volumes of TopoLVM', async () => {
    await ns.grow('thick', '200Mi');
    await ns.grown('thick', '200Mi');
    assert.ok(Number(await ns.sh('thick', mebibytes)) > 160, 'in the pod that TopoLVM mounted it for');
    await Promise.all(Object.entries(pods).map(([name, pod]) => ns.replacePod(name, pod)));
    await intact();

    await ns.claim('restored', {
      storageClass: 'thin-xfs',
      size: '400Mi',
      source: { kind: 'VolumeSnapshot', name: 'by-topolvm' },
    });
    await ns.pod('restored', { claims: { '/data': 'restored' } });
    await ns.ready('restored');
    assert.equal(await ns.sh('restored', 'sha256sum </data/file'), sums['snapshot']);
    await takeSnapshot(cluster, ns, 'by-moorage', 'thin');

    await ns.kubectl('delete', 'pvc/doomed', 'volumesnapshot/by-topolvm');
    await onDisk(5);
  });

  step('TopoLVM takes over again once the pods are gone', async () => {
    await ns.kubectl('delete', 'pod', '--all');
    await unstaged();
    await moorage.uninstall();
    topolvm = await Topolvm.install(cluster);
    await topolvm.start();
    await ns.claim('cloned', {
      storageClass: 'thin-xfs',
      size: '400Mi',
      source: { kind: 'PersistentVolumeClaim', name: 'restored' },
    });
    for (const [name, pod] of Object.entries(pods)) await ns.pod(name, pod);
    await ns.pod('cloned', { claims: { '/data': 'cloned' } });
    for (const name of [...Object.keys(pods), 'cloned']) await ns.ready(name);
    await intact();
    assert.equal(await ns.sh('cloned', 'sha256sum </data/file'), sums['snapshot']);
    await ns.grow('restored', '500Mi');
    await ns.pod('restored', { claims: { '/data': 'restored' } });
    await ns.ready('restored');
    await ns.grown('restored', '500Mi');
    await ns.empty();
    await onDisk(0);
  });

  async function intact(): Promise<void> {
    for (const name of ['thick', 'thin']) {
      assert.equal(await ns.sh(name, 'sha256sum </data/file'), sums[name], name);
    }
    assert.equal(await ns.sh('block', blockSum), sums['block']);
  }

  async function onDisk(count: number): Promise<void> {
    const [node] = cluster.nodes;
    await eventually(`${count} volumes are on the disks`, async () => {
      const names = ((await node?.shell('lvs --noheadings -o lv_name')) ?? '').split(/\s+/);
      return names.filter((name) => name !== '' && name !== thin.pool).length === count;
    });
  }

  /** TopoLVM never unmounts what it did not mount, so the kubelet must have unmounted everything before. */
  async function unstaged(): Promise<void> {
    const [node] = cluster.nodes;
    await eventually('nothing is staged', async () => {
      const staged = await node?.shell('grep -c /plugins/kubernetes.io/csi/ /proc/mounts || true');
      return staged?.trim() === '0';
    });
  }
});
