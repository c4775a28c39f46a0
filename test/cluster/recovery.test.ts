import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { allowDeleteAnnotation, claimKey, driverName, pendingDeletionAnnotation } from '../../src/api/names.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { busyboxImage } from '../../worlds/cluster/images.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { story } from './story.ts';
import { lightPod, TestNamespace } from './test-namespace.ts';

/** The volumes of the pod, by their StorageClasses. */
const volumes = { ext4: 'moorage', xfs: 'moorage-xfs', thin: 'moorage-thin' };
const plugin = kubectlMoorage({ columns: 120, colours: false });

/** Each test loses something else of the same three volumes, and finds the same files again. */
describe('recovery', () => {
  let cluster: Cluster;
  let node: ClusterNode;
  let moorage: Moorage;
  let ns: TestNamespace;
  let sums: string;
  let disks: string;
  const step = story();
  const kubectlMoorageSays = (...words: string[]) =>
    runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });

  before(async () => {
    cluster = await Cluster.start({ nodes: 1 });
    node = cluster.node('a');
    moorage = await Moorage.install(cluster);
    await prepare();
    await deploy();
    const write = 'dd if=/dev/urandom of=$dir/file bs=64k count=32 2>/dev/null';
    await ns.sh('db-0', `for dir in /data/*; do ${write}; done; sync`);
    sums = await checksums();
    disks = await onDisk();
    assert.match(disks, /TYPE="ext4"[^]*TYPE="xfs"|TYPE="xfs"[^]*TYPE="ext4"/);
  });
  after(() => cluster?.stop());

  step('etcd is wiped: the volumes are imported with their claims', async () => {
    await cluster.rebuild();
    await moorage.reinstall();
    const { orphans } = await eventually('the node reports the volumes of the lost cluster', async () => {
      const { status } = (await cluster.kube.get(nodeStorages, node.name)) ?? {};
      return status?.orphans.total === 3 && status;
    });
    const tags = new Set(orphans.volumes.flatMap((orphan) => orphan.tags));
    for (const name of Object.keys(volumes)) assert.ok(tags.has(`${claimKey}=shop/${name}-db-0`), name);
    assert.equal(await onDisk(), disks, 'nothing is done to them before');

    await prepare();
    const file = join(cluster.dir, 'import.yaml');
    await writeFile(file, await kubectlMoorageSays('import', '--node', node.name, '--with-claims'));
    const created = await kubectlMoorageSays('import', '-f', file);
    assert.equal(created.match(/ created$/gm)?.length, 9);
    assert.equal(await kubectlMoorageSays('import', '--node', node.name), '', 'nothing is left to import');
    await deploy();
    await unharmed();
    assert.equal((await ns.found('xfs-db-0'))?.spec?.storageClassName, volumes.xfs);
  });

  step('a claim is deleted, and Moorage is uninstalled and installed again', async () => {
    const volume = await volumeOf('ext4-db-0');
    await withoutPod(async () => {
      await ns.kubectl('delete', 'pvc', 'ext4-db-0');
      await moorage.uninstall();
      await moorage.reinstall();
      await kubectlMoorageSays('reattach', `pv/${volume}`);
    });
    await unharmed();
  });

  step('a LogicalVolume is lost without its volume', async () => {
    const volume = await volumeOf('thin-db-0');
    await withoutPod(async () => {
      const annotations = { [allowDeleteAnnotation]: 'true', [pendingDeletionAnnotation]: 'true' };
      const body = { metadata: { finalizers: null, annotations } };
      await cluster.kube.patch(logicalVolumes, volume, { type: 'merge', body });
      await cluster.kube.delete(logicalVolumes, volume);
      await kubectlMoorageSays('reattach', `pv/${volume}`);
    });
    assert.equal((await cluster.kube.get(logicalVolumes, volume))?.spec.deviceClass, 'thin');
    await unharmed();
  });

  step('the node is deleted and joins again', async () => {
    const retained = await Promise.all(Object.keys(volumes).map((name) => volumeOf(`${name}-db-0`)));
    // With a pod, new claims could get new volumes before the old ones are reattached.
    await withoutPod(async () => {
      await cluster.kubectl('delete', 'node', node.name);
      await node.kill();
      await node.boot();
      await moorage.whenServing(node);
      for (const volume of retained) {
        await cluster.kubectl('wait', `pv/${volume}`, '--for=jsonpath={.status.phase}=Released', '--timeout=280s');
        await kubectlMoorageSays('reattach', `pv/${volume}`, '-n', 'shop', '--statefulset', 'db');
      }
    });
    await unharmed();
  });

  /** What the volumes need in a new cluster, before they are created or imported. */
  async function prepare(): Promise<void> {
    await cluster.kube.create(storageClasses, {
      metadata: { name: volumes.xfs },
      provisioner: driverName,
      parameters: { 'csi.storage.k8s.io/fstype': 'xfs' },
      volumeBindingMode: 'WaitForFirstConsumer',
    });
    ns = await TestNamespace.create(cluster, 'shop');
  }

  async function deploy(): Promise<void> {
    const file = join(cluster.dir, 'db.json');
    await writeFile(file, JSON.stringify(statefulSet));
    await ns.kubectl('apply', '-f', file);
    await ns.ready('db-0');
  }

  async function withoutPod(act: () => Promise<void>): Promise<void> {
    await ns.kubectl('scale', 'statefulset/db', '--replicas=0');
    await ns.kubectl('wait', 'pod/db-0', '--for=delete', '--timeout=280s');
    await act();
    await ns.kubectl('scale', 'statefulset/db', '--replicas=1');
    await ns.ready('db-0');
  }

  async function volumeOf(claim: string): Promise<string> {
    return (await ns.found(claim))?.spec?.volumeName ?? '';
  }

  async function checksums(): Promise<string> {
    return ns.sh('db-0', 'sha256sum /data/*/file');
  }

  /** Each volume with its filesystem: one that is created again, or formatted again, has another UUID. */
  async function onDisk(): Promise<string> {
    return node.shell(`
      lvs --noheadings -o vg_name,lv_name,lv_uuid,lv_size local local-thin | sort
      for device in $(lvs --noheadings -o lv_path local local-thin); do blkid -p -s TYPE -s UUID $device; done | sort`);
  }

  async function unharmed(): Promise<void> {
    assert.equal(await checksums(), sums);
    assert.equal(await onDisk(), disks);
  }
});

const labels = { app: 'db' };
const statefulSet = {
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: 'db' },
  spec: {
    replicas: 1,
    serviceName: 'db',
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: {
        ...lightPod,
        containers: [
          {
            name: 'main',
            image: busyboxImage,
            imagePullPolicy: 'Never',
            command: ['sh', '-c', `trap 'exit 0' TERM; sleep 1000000 & wait $!`],
            volumeMounts: Object.keys(volumes).map((name) => ({ name, mountPath: `/data/${name}` })),
          },
        ],
      },
    },
    volumeClaimTemplates: Object.entries(volumes).map(([name, storageClassName]) => ({
      metadata: { name },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName, resources: { requests: { storage: '300Mi' } } },
    })),
  },
};
