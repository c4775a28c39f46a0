import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { driverName } from '../../src/api/names.ts';
import { type StorageClass, storageClasses } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { story } from './story.ts';
import { claimSpec, TestNamespace } from './test-namespace.ts';

const writeFile = 'dd if=/dev/urandom of=/data/file bs=64k count=64 2>/dev/null && sync';
const readFile = 'sha256sum </data/file';

describe('every kind of volume', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  const afterwards = story();
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
    for (const [name, changes] of Object.entries(classes)) {
      const spec = { volumeBindingMode: 'WaitForFirstConsumer', allowVolumeExpansion: true, ...changes };
      await cluster.kube.create(storageClasses, { metadata: { name }, provisioner: driverName, ...spec });
    }
  });

  const classes: Record<string, Partial<StorageClass>> = {
    now: { volumeBindingMode: 'Immediate' },
    unmountable: { mountOptions: ['nonsense'] },
    absent: { parameters: { 'topolvm.io/device-class': 'nvme' }, volumeBindingMode: 'Immediate' },
    private: {
      mountOptions: ['noatime'],
      parameters: {
        'moorage.dev/mkfs-options': '-N 64',
        'moorage.dev/root-mode': '0750',
        'moorage.dev/root-owner': '1000:2000',
      },
    },
  };

  describe('in parallel', { concurrency: 5 }, () => {
    for (const [filesystem, size] of [
      ['ext4', '100Mi'],
      ['xfs', '300Mi'],
      ['btrfs', '200Mi'],
    ] as const) {
      test(`${filesystem} keeps its data, and a pod can mount it read-only`, async (t) => {
        const ns = await TestNamespace.forTest(t, cluster, filesystem);
        const pod = { claims: { '/data': 'data' } };
        await ns.claim('data', { storageClass: `moorage-${filesystem}`, size });
        await ns.pod('first', pod);
        await ns.ready('first');
        assert.match(await ns.sh('first', 'grep " /data " /proc/mounts'), new RegExp(` ${filesystem} rw,`));
        await ns.sh('first', writeFile);
        const written = await ns.sh('first', readFile);

        await ns.deletePod('first');
        await ns.pod('reader', { ...pod, readOnly: true });
        await ns.ready('reader');
        assert.equal(await ns.sh('reader', readFile), written);
        assert.equal(await ns.sh('reader', 'touch /data/x 2>/dev/null || echo refused'), 'refused');
      });
    }

    test('a raw block device keeps its data', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'block');
      const pod = { devices: { '/dev/xvda': 'data' } };
      await ns.claim('data', { volumeMode: 'Block', size: '64Mi' });
      await ns.pod('first', pod);
      await ns.ready('first');
      assert.equal(await ns.sh('first', 'blockdev --getsize64 /dev/xvda'), String(64 * 1024 ** 2));
      await ns.sh('first', 'dd if=/dev/urandom of=/dev/xvda bs=1M count=64 conv=fsync 2>/dev/null');
      const written = await ns.sh('first', 'sha256sum </dev/xvda');

      await ns.replacePod('first', pod);

      assert.equal(await ns.sh('first', 'sha256sum </dev/xvda'), written);
    });

    test('a StorageClass sets mkfs options, and owner and mode of the root directory', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'private');
      await ns.claim('data', { storageClass: 'private' });
      await ns.pod('first', { claims: { '/data': 'data' } });
      await ns.ready('first');
      assert.equal(await ns.sh('first', 'stat -c "%a %u:%g" /data'), '750 1000:2000');
      assert.match(await ns.sh('first', 'grep " /data " /proc/mounts'), /,noatime/);
      assert.ok(Number(await ns.sh('first', 'stat -f -c %c /data')) < 200, 'about as many inodes as requested');
    });

    test('a claim whose filesystem cannot be mounted gets an event that says why', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'unmountable');
      await ns.claim('data', { storageClass: 'unmountable' });
      await ns.pod('first', { claims: { '/data': 'data' } });
      await ns.event(
        'PersistentVolumeClaim/data',
        /node-\w cannot use the filesystem of the volume: .* cannot be mounted: .*; correct the mount options \(nonsense\)/,
      );
    });

    test('an inline ephemeral volume lives as long as its pod', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'inline');
      const volumeAttributes = { 'topolvm.io/size': '1' };
      await ns.pod('first', { inline: { '/data': { driver: driverName, fsType: 'xfs', volumeAttributes } } });
      await ns.ready('first');
      assert.match(await ns.sh('first', 'grep " /data " /proc/mounts'), / xfs rw/);
      await ns.sh('first', writeFile);
      const node = await ns.nodeOf('first');
      const ephemeral = `lvs --noheadings --units m -o lv_size ${volumeGroup} -S 'lv_tags=ephemeral'`;
      assert.equal((await node.shell(ephemeral)).trim(), '1024.00m');

      await ns.deletePod('first');

      await eventually('the volume is gone', async () => (await node.shell(ephemeral)).trim() === '');
    });

    test('a pod whose inline volume is too large gets an event that says what to change', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'greedy');
      const refusals = [
        [{ 'topolvm.io/size': '11' }, /11 GiB .*10 GiB is the limit.*node\.inlineVolumes\.maxSize/],
        [{ 'topolvm.io/device-class': 'thin' }, /"thin" .*node\.inlineVolumes\.deviceClasses/],
        [{ 'moorage.dev/mkfs-options': '-i 1024' }, /mkfs-options, which only a StorageClass may set/],
      ] as const;
      for (const [i, [volumeAttributes]] of refusals.entries()) {
        await ns.pod(`greedy-${i}`, { inline: { '/data': { driver: driverName, volumeAttributes } } });
      }
      for (const [i, [, says]] of refusals.entries()) await ns.event(`Pod/greedy-${i}`, says);
    });

    test('a generic ephemeral volume lives as long as its pod', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'generic');
      await ns.pod('first', { generic: { '/data': { spec: claimSpec({ size: '64Mi' }) } } });
      await ns.ready('first');
      await ns.sh('first', writeFile);

      await ns.deletePod('first');

      await eventually('its claim is gone', async () => (await ns.found('first-volume-0')) === undefined);
    });

    test('ReadWriteOncePod admits one pod at a time', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'once');
      const pod = { claims: { '/data': 'data' } };
      await ns.claim('data', { accessMode: 'ReadWriteOncePod' });
      await ns.pod('first', pod);
      await ns.ready('first');
      await ns.pod('second', pod);
      await ns.event('Pod/second', /ReadWriteOncePod/);

      await ns.deletePod('first');

      await ns.ready('second');
    });

    test('a pod has claims of three device classes, all on its node', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'three');
      for (const name of ['moorage', 'moorage-thin', 'moorage-file']) await ns.claim(name, { storageClass: name });
      await ns.pod('first', { claims: { '/lvm': 'moorage', '/thin': 'moorage-thin', '/file': 'moorage-file' } });
      await ns.ready('first');
      const sources = await ns.sh('first', 'grep -E " /(lvm|thin|file) " /proc/mounts | cut -d" " -f1');
      assert.equal(new Set(sources.split('\n')).size, 3);
      await ns.sh('first', 'for d in /lvm /thin /file; do echo $d >$d/name; done; sync');
      assert.equal(await ns.sh('first', 'cat /lvm/name /thin/name /file/name'), '/lvm\n/thin\n/file');
    });

    test('with Immediate binding the volume exists before the pod, which is scheduled to its node', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'now');
      await ns.claim('data', { storageClass: 'now' });
      const id = await ns.volumeId('data');
      await ns.pod('first', { claims: { '/data': 'data' } });
      await ns.ready('first');
      assert.match(
        await (await ns.nodeOf('first')).shell(`lvs --noheadings -o lv_name ${volumeGroup}`),
        new RegExp(id),
      );
    });

    test('a claim of a device class that no node has gets an event that says so', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'absent');
      await ns.claim('data', { storageClass: 'absent' });
      await ns.event('PersistentVolumeClaim/data', /device class nvme/);
    });
  });

  test('a claim on a full pool gets an event, and is served when space is freed', async (t) => {
    const ns = await TestNamespace.forTest(t, cluster, 'full');
    for (const node of cluster.nodes) await ns.claim(`filler-${node.name}`, { node: node.name, size: '7Gi' });
    for (const node of cluster.nodes) await ns.volumeId(`filler-${node.name}`);
    await ns.claim('squeezed', { size: '2Gi', node: 'node-a' });
    await ns.event(
      'PersistentVolumeClaim/squeezed',
      /device class lvm has .* free, 2 GiB requested; free space, add a disk/,
    );
    await ns.claim('data', { size: '2Gi' });
    await ns.pod('first', { claims: { '/data': 'data' } });
    await ns.event('Pod/first', /not have enough free storage/);

    await ns.kubectl('delete', 'pvc', 'filler-node-b');

    await ns.ready('first');
    assert.equal((await ns.nodeOf('first')).name, 'node-b');
  });

  afterwards('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
