import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { defaultCapacityAnnotation } from '../../src/api/names.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { nodes } from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { CheckedSet } from './checked-set.ts';
import { onlyVolumesLeft } from './moves/left-on-disks.ts';
import { type MoveCase, nameOf, type VolumeKind, volumeKinds } from './moves/move-cases.ts';
import { classOf, MoveLab } from './moves/move-lab.ts';
import { nothingLeft } from './nothing-left.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

/** The most telling of all cases; `npm run test:moves` runs the others. */
const faults: readonly MoveCase[] = [
  { phase: 'Copying', victim: 'source node', volume: 'thick' },
  { phase: 'Freezing', victim: 'target agent', volume: 'thin' },
  { phase: 'Switching', victim: 'controller', volume: 'encrypted' },
];

describe('a volume that moves while its pod writes', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  let lab: MoveLab;
  const afterwards = story();
  const pods = new Map<VolumeKind, CheckedSet>();
  before(async () => {
    cluster = await Cluster.start({ nodes: 3 });
    moorage = await Moorage.install(cluster);
    lab = await MoveLab.create(cluster, moorage);
    const create = async (kind: VolumeKind) => {
      const onNodes = kind === 'file' ? { onNodes: ['node-a', 'node-c'] } : {};
      pods.set(kind, await CheckedSet.create(cluster, kind, { storageClass: classOf[kind], ...onNodes }));
    };
    await Promise.all(volumeKinds.map(create));
  });

  after(() => cluster?.stop());

  const podOf = (kind: VolumeKind) => pods.get(kind) ?? assert.fail(`there is no ${kind} volume`);

  /** Runs `kubectl moorage migrate`, as a person would. */
  async function migrated(pod: CheckedSet, { from, to }: { readonly from: string; readonly to: string }) {
    await pod.writes();
    const plugin = kubectlMoorage({ columns: undefined, colours: false });
    const env = { KUBECONFIG: cluster.kubeconfig };
    const output = await runCaptured(plugin, ['migrate', `pod/${pod.pod()}`, '-n', pod.name], { env });
    assert.match(output, new RegExp(`: Done, moved from node ${from} to node ${to}; .* could not use it for \\d+ s$`));
    await lab.verify(pod, to);
  }

  describe('one after the other, as a node has one move at a time', { concurrency: 2 }, () => {
    test('thick: to the node with the most room', async (t) => {
      const pod = podOf('thick');
      const { source, target: full } = await lab.endsOf(pod);
      const ns = await TestNamespace.forTest(t, cluster, 'ballast');
      await ns.claim('ballast', { node: full, size: '2Gi' });
      await ns.volumeId('ballast');
      const { name: emptiest } = cluster.nodes.find(({ name }) => name !== source && name !== full) ?? assert.fail();
      const freeOn = async (name: string) => {
        const node = await cluster.kube.get(nodes, name);
        return BigInt(
          node?.metadata.annotations?.[defaultCapacityAnnotation] ?? assert.fail(`${name} reports no room`),
        );
      };
      await eventually(`${full} reports less room`, async () => (await freeOn(full)) < (await freeOn(emptiest)));
      await migrated(pod, { from: source, to: emptiest });
    });

    test('file: to a node that its pod may run on', async () => {
      const pod = podOf('file');
      const from = await pod.nodeOf();
      await migrated(pod, { from, to: from === 'node-a' ? 'node-c' : 'node-a' });
    });
  });

  afterwards('nothing is left on the disks that they have left', () => onlyVolumesLeft(cluster));

  // Each to a node that somebody has chosen.
  for (const one of faults) {
    afterwards(`${nameOf(one)} dies, and the move goes on (${one.volume})`, async (t) => {
      const { pauseSeconds } = await lab.run(one, podOf(one.volume));
      t.diagnostic(`the pod did not write for ${pauseSeconds} s`);
    });
  }

  afterwards('nothing is left when the claims are deleted', async () => {
    await Promise.all([...pods.values()].map((set) => set.delete()));
    await nothingLeft(cluster, moorage);
  });
});
