import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { deleting, logicalVolumes, type StoredLogicalVolume } from '../../src/api/logical-volume.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { thin } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { AgentFaults } from './agent-faults.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { requestSnapshot, snapshotReady } from './snapshot.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

const write = (path: string) =>
  `dd if=/dev/urandom of=${path} bs=64k count=32 2>/dev/null && sync && sha256sum <${path}`;

describe('an agent that ends in the middle of its work', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  const afterwards = story();
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
  });

  describe('in parallel', { concurrency: 2 }, () => {
    for (const [fate, nodeName] of [
      ['killed', 'node-a'],
      ['replaced', 'node-b'],
    ] as const) {
      test(`an agent ${fate} while it creates, formats, grows, copies and removes volumes: every operation completes`, async (t) => {
        const node = cluster.node(nodeName);
        const agent = new AgentFaults(cluster, moorage, node);
        const ns = await TestNamespace.forTest(t, cluster, fate);
        const here = { node: nodeName };
        await ns.claim('grown', here);
        await ns.claim('copied', { ...here, storageClass: 'moorage-thin' });
        await ns.claim('doomed', here);
        await ns.claim('fresh', here);
        await ns.pod('writer', { ...here, claims: { '/grown': 'grown', '/copied': 'copied' } });
        await ns.ready('writer');
        const inGrown = await ns.sh('writer', write('/grown/file'));
        const inCopied = await ns.sh('writer', write('/copied/file'));
        for (const claim of ['doomed', 'fresh']) await ns.volumeId(claim);

        await agent.holdMkfs();
        await ns.pod('formatter', { ...here, claims: { '/data': 'fresh' } });
        const letMkfsGoOn = await agent.mkfsBegun();
        undoAfter(t, letMkfsGoOn);
        const letLvmGoOn = await agent.holdLvm(t);
        await ns.claim('made', here);
        await ns.grow('grown', '200Mi');
        await requestSnapshot(cluster, ns, 'moment', 'copied');
        await ns.kubectl('delete', 'pvc', 'doomed', '--wait=false');
        await asked(
          'a volume',
          (volume) => volume.spec.nodeName === nodeName && !volume.status?.volumeID && !volume.spec.source,
        );
        await asked('growth', (volume) => volume.spec.nodeName === nodeName && String(volume.spec.size) === '200Mi');
        await asked('a copy', (volume) => volume.spec.nodeName === nodeName && Boolean(volume.spec.source));
        await asked('removal', (volume) => volume.spec.nodeName === nodeName && deleting(volume));

        await (fate === 'killed' ? agent.kill() : agent.replace());
        await letLvmGoOn();
        await letMkfsGoOn();

        await agent.serves();
        await ns.ready('formatter');
        await ns.sh('formatter', write('/data/file'));
        await ns.volumeId('made');
        await ns.grown('grown', '200Mi');
        await snapshotReady(cluster, ns, 'moment');
        await eventually('the volume of the deleted claim is gone', async () => (await ofNode(nodeName)).length === 5);
        assert.equal(await ns.sh('writer', 'sha256sum </grown/file'), inGrown);
        assert.equal(await ns.sh('writer', 'sha256sum </copied/file'), inCopied);
        await onDiskAsAsked(nodeName);

        await ns.claim('restored', {
          storageClass: 'moorage-thin',
          source: { kind: 'VolumeSnapshot', name: 'moment' },
        });
        await ns.pod('reader', { ...here, claims: { '/data': 'restored' } });
        await ns.ready('reader');
        assert.equal(await ns.sh('reader', 'sha256sum </data/file'), inCopied);
      });
    }

    async function ofNode(nodeName: string): Promise<StoredLogicalVolume[]> {
      const { items } = await cluster.kube.list(logicalVolumes);
      return items.filter(({ spec }) => spec.nodeName === nodeName);
    }

    async function asked(what: string, isIt: (volume: StoredLogicalVolume) => boolean): Promise<void> {
      await eventually(`${what} is asked for`, async () => (await cluster.kube.list(logicalVolumes)).items.some(isIt), {
        explain: () => cluster.tails(),
      });
    }

    /** Each requested volume exists exactly once, and nothing else does. */
    async function onDiskAsAsked(nodeName: string): Promise<void> {
      const found = await cluster.node(nodeName).shell('lvs --noheadings -o lv_name');
      const names = found.split(/\s+/).filter((name) => name !== '' && name !== thin.pool);
      const asked = (await ofNode(nodeName)).map(({ status }) => status?.volumeID ?? 'none');
      assert.deepEqual(names.sort(), asked.sort());
    }
  });

  afterwards('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
