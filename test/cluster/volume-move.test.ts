import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { onlyVolumesLeft } from './moves/left-on-disks.ts';
import { type MoveCase, nameOf, type VolumeKind, volumeKinds } from './moves/move-cases.ts';
import { classOf, MoveLab } from './moves/move-lab.ts';
import { WritingSet } from './moves/writing-set.ts';
import { nothingLeft } from './nothing-left.ts';
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
  const pods = new Map<VolumeKind, WritingSet>();
  before(async () => {
    cluster = await Cluster.start({ nodes: 3 });
    moorage = await Moorage.install(cluster);
    lab = await MoveLab.create(cluster, moorage);
    for (const kind of volumeKinds) {
      const onNodes = kind === 'file' ? { onNodes: ['node-a', 'node-c'] } : {};
      pods.set(kind, await WritingSet.create(cluster, kind, { storageClass: classOf[kind], ...onNodes }));
    }
  });

  after(() => cluster?.stop());

  const podOf = (kind: VolumeKind) => pods.get(kind) ?? assert.fail(`there is no ${kind} volume`);

  /** Runs `kubectl moorage migrate`, as a person would. */
  async function migrated(
    pod: WritingSet,
    expected: { readonly from: string; readonly to: string },
    ...flags: string[]
  ) {
    const written = await pod.writes();
    const plugin = kubectlMoorage({ columns: undefined, colours: false });
    const env = { KUBECONFIG: cluster.kubeconfig };
    const output = await runCaptured(plugin, ['migrate', `pod/${pod.set.name}-0`, ...flags], { env });
    const { from, to } = expected;
    assert.match(output, new RegExp(`: Done, moved from node ${from} to node ${to}; .* could not use it for \\d+ s$`));
    await lab.verify(pod, written, to);
  }

  describe('one after the other, as a node has one move at a time', { concurrency: 4 }, () => {
    test('thick: to the node with the most room', async () => {
      const pod = podOf('thick');
      await pod.writes();
      const { source, target: full } = await lab.endsOf(pod);
      const ns = await TestNamespace.create(cluster, 'ballast');
      await ns.claim('ballast', { node: full, size: '2Gi' });
      await ns.volumeId('ballast');
      const emptiest = cluster.nodes.find(({ name }) => name !== source && name !== full);
      await migrated(pod, { from: source, to: emptiest?.name ?? '' });
      await ns.empty();
    });

    test('file: to a node that its pod may run on', async () => {
      const pod = podOf('file');
      await pod.writes();
      const from = await pod.set.nodeOf();
      await migrated(pod, { from, to: from === 'node-a' ? 'node-c' : 'node-a' });
    });

    for (const kind of ['thin', 'encrypted'] as const) {
      test(`${kind}: to a node that somebody has chosen`, async () => {
        const pod = podOf(kind);
        await pod.writes();
        const { source: from, target: to } = await lab.endsOf(pod);
        await migrated(pod, { from, to }, `--to=${to}`);
      });
    }
  });

  test('nothing is left on the disks that they have left', async () => {
    await onlyVolumesLeft(cluster);
    const { items } = await cluster.kube.list(volumeMoves, { namespace: 'default' });
    for (const { metadata } of items) await cluster.kubectl('delete', 'volumemove', metadata.name);
  });

  for (const one of faults) {
    test(`${nameOf(one)} dies, and the move goes on`, async (t) => {
      const { pauseSeconds } = await lab.run(one, podOf(one.volume));
      t.diagnostic(`the pod did not write for ${pauseSeconds} s`);
    });
  }

  test('nothing is left when the claims are deleted', async () => {
    for (const { set } of pods.values()) await set.delete();
    await nothingLeft(cluster, moorage);
  });
});
