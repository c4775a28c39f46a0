import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, type TestContext } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { type Pod, pods, type Stored } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { keepLog } from '../../worlds/cluster/kept-log.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { writeNextImage } from '../../worlds/cluster/moorage-image.ts';
import { values } from '../../worlds/cluster/values.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { type LogLine, logLines } from '../../worlds/host/log-line.ts';
import { namespace } from '../chart/chart.ts';
import { AgentFaults } from './agent-faults.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

/**
 * Writes block after block, syncs each one before the next, and reports failures. It pauses now and then, because the node has
 * one processor, and ends when told to.
 */
const writer = `
  i=0
  until [ -e /stop ]; do
    i=$((i+1)); block=/data/$((i%500))
    rm -f $block.sum &&
      dd if=/dev/urandom of=$block bs=16k count=1 conv=fsync 2>/tmp/why &&
      sha256sum $block | dd of=$block.sum conv=fsync 2>/tmp/why && sha256sum -c $block.sum >/tmp/why 2>&1 &&
      echo $i >/written || echo "block $i: $(cat /tmp/why)" >>/failed
    sleep 0.5
  done
  touch /stopped`;

/** Two default classes are ambiguous, which only the agent detects. */
const twoDefaults = values.lvmd.deviceClasses.map((deviceClass) => ({ ...deviceClass, default: true }));

describe('an upgrade and a rollback while pods write', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  let ns: TestNamespace;
  let next: string;
  const step = story();
  const mountedBefore = new Map<string, string>();
  const writers = ['node-a', 'node-b'];

  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
    const archive = join(cluster.dir, 'moorage', 'next.tar');
    next = await writeNextImage(archive);
    await moorage.load(archive);
    ns = await TestNamespace.create(cluster, 'shop');
    for (const node of writers) {
      await ns.claim(node, { node });
      await ns.pod(node, { node, claims: { '/data': node }, script: writer });
    }
    for (const node of writers) {
      await ns.ready(node);
      const mounted = await mounts(cluster.node(node), await ns.volumeId(node));
      assert.match(mounted, /globalmount/, 'for the node');
      assert.match(mounted, /kubernetes.io~csi/, 'and for the pod');
      mountedBefore.set(node, mounted);
    }
  });

  step('helm upgrade to another image completes running operations', async (t) => {
    await handsOver(() => whileAVolumeIsCreated(t, 'made-in-upgrade', () => moorage.upgrade(next)));
    await allRun(new RegExp(`:${next}$`));
    await allWrite();
  });

  step('helm rollback to the previous image completes running operations', async (t) => {
    await handsOver(() => whileAVolumeIsCreated(t, 'made-in-rollback', () => moorage.rollback()));
    await allRun(new RegExp(`:(?!${next}$)`));
    await allWrite();
  });

  step('an upgrade to a version that cannot start keeps the agent of every node', async () => {
    const served = await Promise.all(cluster.nodes.map((node) => moorage.agentOn(node)));
    await moorage.upgradeTo({ ...values, image: { ...values.image, tag: next }, lvmd: { deviceClasses: twoDefaults } });
    for (const node of cluster.nodes) {
      await eventually(`the next agent of ${node.name} fails`, async () => {
        const [, broken] = await moorage.agentsOn(node);
        return (broken?.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0;
      });
    }
    for (const node of writers) {
      await ns.claim(`meanwhile-on-${node}`, { node });
      await ns.pod(`meanwhile-on-${node}`, { node, claims: { '/data': `meanwhile-on-${node}` } });
    }
    for (const node of writers) await ns.ready(`meanwhile-on-${node}`);
    const uids = (agents: readonly Stored<Pod>[]) => agents.map(({ metadata }) => metadata.uid);
    assert.deepEqual(uids(await Promise.all(cluster.nodes.map((node) => moorage.agentOn(node)))), uids(served));
    // The configuration is valid again just before the image is: an agent started at that moment may take over.
    await moorage.rollback();
    await allRun(new RegExp(`:(?!${next}$)`));
    await allWrite();
  });

  step('no write failed, no data is lost, and no volume was remounted', async () => {
    for (const node of writers) {
      await ns.sh(node, 'touch /stop');
      await eventually(`the writer on ${node} has ended`, () => ns.sh(node, 'test -e /stopped').then(() => true));
      assert.equal(await ns.sh(node, 'cat /failed 2>/dev/null || true'), '');
      const checked = await ns.sh(node, 'cat /data/*.sum | sha256sum -c | grep -c OK');
      assert.ok(Number(checked) > 0, `${checked} blocks were written on ${node}`);
      assert.equal(await mounts(cluster.node(node), await ns.volumeId(node)), mountedBefore.get(node));
      assert.equal(
        (await cluster.kube.get(pods, node, { namespace: ns.name }))?.status?.containerStatuses?.[0]?.restartCount,
        0,
      );
    }
    await ns.empty();
    await nothingLeft(cluster, moorage);
  });

  /** The agent is told to stop while LVM creates a volume for it. */
  async function whileAVolumeIsCreated(t: TestContext, claim: string, change: () => Promise<void>): Promise<void> {
    const node = cluster.node('a');
    const { metadata } = await moorage.agentOn(node);
    const letLvmGoOn = await new AgentFaults(cluster, moorage, node).holdLvm(t);
    await ns.claim(claim, { node: node.name });
    await eventually('a volume is requested', async () =>
      (await cluster.kube.list(logicalVolumes)).items.some(({ status }) => !status?.volumeID),
    );
    const changed = change();
    try {
      await Promise.race([asksToEnd(metadata.name), changed]);
    } finally {
      await letLvmGoOn();
    }
    await changed;
    await ns.volumeId(claim);
  }

  async function asksToEnd(agent: string): Promise<void> {
    await eventually(
      'the agent is told to stop',
      async () => {
        const pod = await cluster.kube.get(pods, agent, { namespace });
        return pod === undefined || pod.metadata.deletionTimestamp !== undefined;
      },
      { timeoutMs: 240_000, explain: () => cluster.tails() },
    );
  }

  async function allRun(image: RegExp): Promise<void> {
    const running = [
      await moorage.controller(),
      ...(await Promise.all(cluster.nodes.map((node) => moorage.agentOn(node)))),
    ];
    for (const { metadata, spec } of running) assert.match(spec?.containers[0]?.image ?? '', image, metadata.name);
  }

  /** Each agent starts beside its predecessor, and does nothing until that one has ended. */
  async function handsOver(change: () => Promise<void>): Promise<void> {
    const logs = await Promise.all(cluster.nodes.map(async (node) => keepLog(node, await moorage.agentOn(node))));
    await change();
    for (const [index, node] of cluster.nodes.entries()) {
      const before = (await logs[index]?.()) ?? [];
      // It is ready before it serves.
      const after = await eventually(`the next agent serves ${node.name}`, async () => {
        const said = logLines(await moorage.log(await moorage.agentOn(node)));
        return said.some(({ msg }) => msg === 'serving') && said;
      });
      const stopped = before.find(({ msg }) => msg === 'stopped'); // missing if the kubelet killed it
      const steps = [
        saidAt(after, /waiting as standby/),
        ...(stopped ? [stopped.time] : []),
        saidAt(after, /^taking over$/),
        saidAt(after, /^serving$/),
      ];
      assert.deepEqual(steps, steps.toSorted(), node.name);
    }
  }

  async function allWrite(): Promise<void> {
    for (const node of writers) {
      const before = Number(await ns.sh(node, 'cat /written'));
      await eventually(`the pod on ${node} writes on`, async () => Number(await ns.sh(node, 'cat /written')) > before);
    }
  }
});

function saidAt(log: readonly LogLine[], message: RegExp): string {
  const line = log.find(({ msg }) => message.test(msg));
  return line?.time ?? assert.fail(`no log line ${message}: ${JSON.stringify(log, undefined, 1)}`);
}

/** The mounts of a volume on its node. Each mount has a unique number, so a remount shows. */
async function mounts(node: ClusterNode, volumeId: string): Promise<string> {
  const device = volumeId.replaceAll('-', '--');
  return node.shell(`grep -- ${device} /proc/1/mountinfo | cut -d' ' -f1,5 | sort`);
}
