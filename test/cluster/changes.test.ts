import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { createAttributesClass } from './attributes-class.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { takeSnapshot } from './snapshot.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

const write = 'dd if=/dev/urandom of=/data/file bs=64k count=64 2>/dev/null && sync';
const sum = 'sha256sum </data/file';

describe('changes to a volume', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  const afterwards = story();
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
  });

  describe('in parallel', { concurrency: 4 }, () => {
    for (const [filesystem, from, to, toMebibytes] of [
      ['ext4', '100Mi', '200Mi', 200],
      ['xfs', '300Mi', '400Mi', 400],
      ['btrfs', '200Mi', '300Mi', 300],
    ] as const) {
      test(`${filesystem} grows while a pod writes to it`, async (t) => {
        const ns = await TestNamespace.forTest(t, cluster, `grow-${filesystem}`);
        await ns.claim('data', { storageClass: `moorage-${filesystem}`, size: from });
        // Lines are numbered, so that a lost, torn or duplicate one shows. It pauses because the node has one processor.
        const script = 'i=0; while :; do i=$((i+1)); echo "line $i" >>/data/log; [ $((i%50)) != 0 ] || sleep 0.5; done';
        await ns.pod('writer', { claims: { '/data': 'data' }, script });
        await ns.ready('writer');

        await ns.grow('data', to);
        await ns.grown('data', to);

        const mebibytes = Number(await ns.sh('writer', 'df -m /data | tail -1 | tr -s " " | cut -d" " -f2'));
        assert.ok(mebibytes > toMebibytes * 0.8, `the filesystem has ${mebibytes} MiB`);
        const check = `awk '$2 != NR { print "line " NR " is " $0; exit 1 }' && echo whole`;
        assert.equal(await ns.sh('writer', `head -n -1 /data/log | ${check}`), 'whole');
      });
    }

    test('a raw block device grows while it is in use', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'grow-block');
      await ns.claim('data', { volumeMode: 'Block', size: '64Mi' });
      await ns.pod('user', { devices: { '/dev/xvda': 'data' } });
      await ns.ready('user');
      await ns.grow('data', '96Mi');
      const size = () => ns.sh('user', 'blockdev --getsize64 /dev/xvda');
      await eventually('the device has grown', async () => (await size()) === String(96 * 1024 ** 2));
      await ns.grown('data', '96Mi');
    });

    test('an unused volume grows, and its filesystem grows with the next pod', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'grow-later');
      const pod = { claims: { '/data': 'data' } };
      await ns.claim('data');
      await ns.pod('first', pod);
      await ns.ready('first');
      await ns.sh('first', write);
      const written = await ns.sh('first', sum);
      await ns.deletePod('first');

      await ns.grow('data', '200Mi');
      await ns.pod('second', pod);
      await ns.ready('second');
      await ns.grown('data', '200Mi');

      assert.equal(await ns.sh('second', sum), written);
      assert.ok(Number(await ns.sh('second', 'df -m /data | tail -1 | tr -s " " | cut -d" " -f2')) > 160);
    });

    test('a snapshot keeps its point in time; restored and cloned volumes are independent', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'copies');
      const thin = { storageClass: 'moorage-thin' };
      await ns.claim('data', thin);
      await ns.pod('original', { claims: { '/data': 'data' } });
      await ns.ready('original');
      const { name: node } = await ns.nodeOf('original');
      await ns.sh('original', write);
      const before = await ns.sh('original', sum);
      await takeSnapshot(cluster, ns, 'moment', 'data');
      await ns.sh('original', write);
      const later = await ns.sh('original', sum);
      assert.notEqual(before, later);

      await ns.claim('restored', { ...thin, size: '200Mi', source: { kind: 'VolumeSnapshot', name: 'moment' } });
      await ns.claim('cloned', { ...thin, source: { kind: 'PersistentVolumeClaim', name: 'data' } });
      await ns.pod('copies', { node, claims: { '/restored': 'restored', '/cloned': 'cloned' } });
      await ns.ready('copies');
      assert.equal(await ns.sh('copies', 'sha256sum </restored/file'), before);
      assert.equal(await ns.sh('copies', 'sha256sum </cloned/file'), later);
      const mebibytes = await ns.sh('copies', 'df -m /restored | tail -1 | tr -s " " | cut -d" " -f2');
      assert.ok(Number(mebibytes) > 160, 'its filesystem fills the larger volume');

      await ns.sh('copies', 'echo changed >/restored/file; echo changed >/cloned/file; sync');
      assert.equal(await ns.sh('original', sum), later);
      await ns.deletePod('original');
      await ns.kubectl('delete', 'volumesnapshot/moment', 'pvc/data');
      assert.equal(await ns.sh('copies', 'cat /restored/file /cloned/file'), 'changed\nchanged');
    });

    test('a pod whose claim is a copy runs on the node of the source, wherever it was scheduled first', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'elsewhere');
      const thin = { storageClass: 'moorage-thin' };
      await ns.claim('data', { ...thin, node: 'node-a' });
      await ns.volumeId('data');
      const source = { kind: 'PersistentVolumeClaim', name: 'data' } as const;
      await ns.claim('cloned', { ...thin, source, node: 'node-b' });
      await ns.pod('user', { claims: { '/data': 'cloned' } });
      await ns.event(
        'PersistentVolumeClaim/cloned',
        /is on node node-a, so its copy cannot be on node-b; run its pod on node-a/,
      );
      await ns.ready('user');
      assert.equal((await ns.nodeOf('user')).name, 'node-a');
    });

    test('a snapshot and a claim are copied to another node if their new claims allow it', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'across');
      const thin = { storageClass: 'moorage-thin' };
      await ns.claim('thin', thin);
      await ns.claim('thick');
      await ns.pod('original', { node: 'node-a', claims: { '/thin': 'thin', '/thick': 'thick' } });
      await ns.ready('original');
      const fill = (path: string) =>
        ns.sh('original', `dd if=/dev/urandom of=${path} bs=64k count=320 2>/dev/null; sync; sha256sum <${path}`);
      const before = await fill('/thin/file');
      await takeSnapshot(cluster, ns, 'moment', 'thin');
      assert.notEqual(await fill('/thin/file'), before);
      const current = await fill('/thick/file');

      const annotations = { 'moorage.dev/cross-node': 'allow' };
      const restored = { kind: 'VolumeSnapshot', name: 'moment' } as const;
      const cloned = { kind: 'PersistentVolumeClaim', name: 'thick' } as const;
      await ns.claim('restored', { ...thin, annotations, size: '200Mi', source: restored });
      await ns.claim('cloned', { annotations, source: cloned });
      await ns.pod('copies', { node: 'node-b', claims: { '/restored': 'restored', '/cloned': 'cloned' } });
      await ns.ready('copies');
      assert.equal(await ns.sh('copies', 'sha256sum </restored/file'), before);
      assert.equal(await ns.sh('copies', 'sha256sum </cloned/file'), current);
      const mebibytes = await ns.sh('copies', 'df -m /restored | tail -1 | tr -s " " | cut -d" " -f2');
      assert.ok(Number(mebibytes) > 160, 'its filesystem fills the larger volume');
      await ns.event('PersistentVolumeClaim/restored', /copied from node node-a to node node-b/);
      await ns.sh('original', 'echo still writable >/thick/other && sync');
      await eventually('no VolumeMove is left', async () => {
        const { items } = await cluster.kube.list(volumeMoves, { namespace: ns.name });
        return items.length === 0;
      });
      await ns.deletePod('original');
      await ns.kubectl('delete', 'volumesnapshot/moment');
    });

    test('a copy of a thick volume is rejected, and the error says which volumes can be copied', async (t) => {
      const ns = await TestNamespace.forTest(t, cluster, 'thick');
      await ns.claim('data', { node: 'node-a' });
      await ns.volumeId('data');
      await ns.claim('cloned', { node: 'node-a', source: { kind: 'PersistentVolumeClaim', name: 'data' } });
      await ns.event('PersistentVolumeClaim/cloned', /device class lvm/);
      await ns.deleteClaim('cloned');
    });

    test('a claim with a VolumeAttributesClass gets an Event that names the sidecars it needs', async (t) => {
      await createAttributesClass(cluster, 'slow', '10Mi', '100');
      undoAfter(t, () => cluster.kubectl('delete', 'volumeattributesclass', 'slow'));
      const ns = await TestNamespace.forTest(t, cluster, 'limits');
      await ns.claim('data', { node: 'node-a' });
      await ns.volumeId('data');
      await ns.patchClaim('data', { spec: { volumeAttributesClassName: 'slow' } });
      await ns.claim('refused', { node: 'node-a', attributesClass: 'slow' });

      const needed = /VolumeAttributesClass slow\b.*csi-provisioner 6 and csi-resizer 2 or newer/;
      await ns.event('PersistentVolumeClaim/refused', needed);
      await ns.event('PersistentVolumeClaim/data', needed);
      const refused = await ns.found('refused');
      assert.equal(refused?.status?.phase, 'Pending');
      assert.equal(await cluster.kube.get(logicalVolumes, `pvc-${refused.metadata?.uid}`), undefined);
    });
  });

  afterwards('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
