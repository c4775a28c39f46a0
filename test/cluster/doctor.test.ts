import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import manifest from '../../package.json' with { type: 'json' };
import { driverName, parameters } from '../../src/api/names.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import { bundleFiles } from '../../src/plugin/bundle/collect.ts';
import { diagnose } from '../../src/plugin/doctor/diagnose.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { sharedCluster } from './shared-cluster.ts';

describe('kubectl moorage doctor and bundle', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
  });
  const deadline = () => AbortSignal.timeout(300_000);
  const diagnosis = () => diagnose(cluster.kube, manifest.version, deadline());

  /** Each finding as `area: sentence`, and what could not be checked. */
  async function findings(): Promise<string[]> {
    const { areas } = await diagnosis();
    return areas.flatMap(({ area, result, summary, findings }) =>
      result === 'unknown' ? [`${area}: unknown: ${summary}`] : findings.map(({ what }) => `${area}: ${what}`),
    );
  }

  test('doctor finds nothing wrong with this installation, and compares all clocks', async () => {
    await eventually('all nodes have reported', async () => {
      const { areas } = await diagnosis();
      assert.deepEqual(
        areas.filter(({ result }) => result !== 'ok'),
        [],
      );
      const summaries = Object.fromEntries(areas.map(({ area, summary }) => [area, summary]));
      assert.equal(summaries['clock'], '2 of 2 nodes compared with the API server');
      assert.equal(summaries['agents'], '2 agents ready, on 2 nodes');
      return true;
    });
  });

  test('a bundle has the logs and metrics of every pod of Moorage', async () => {
    const names: string[] = [];
    for await (const { name, text } of bundleFiles(cluster.kube, manifest.version, deadline())) {
      if (name === 'not-read.txt') assert.equal(text, '');
      else assert.ok(text.length > 0 || name.startsWith('logs/'), name);
      names.push(name);
    }
    const { metadata } = await moorage.controller();
    for (const { metadata: agent } of await Promise.all(cluster.nodes.map((node) => moorage.agentOn(node)))) {
      assert.ok(names.includes(`logs/${agent.name}/node.log`) && names.includes(`metrics/${agent.name}.txt`));
    }
    for (const container of ['controller', 'csi-provisioner']) {
      assert.ok(names.includes(`logs/${metadata.name}/${container}.log`), container);
    }
  });

  test('doctor finds a class that no node serves', async (t) => {
    undoAfter(t, () => cluster.kube.delete(storageClasses, 'unserved'));
    await cluster.kube.create(storageClasses, {
      metadata: { name: 'unserved' },
      provisioner: driverName,
      parameters: { [parameters.deviceClass]: 'nvme' },
      volumeBindingMode: 'WaitForFirstConsumer',
    });
    await eventually('it is found, and nothing else', async () => {
      assert.deepEqual(await findings(), [
        'StorageClasses: No node serves StorageClass unserved, so its claims wait forever.',
      ]);
      return true;
    });
  });

  test('doctor finds a node whose kubelet has lost the driver, and a clock that is wrong', async (t) => {
    const node = cluster.node('b');
    undoAfter(t, async () => {
      await node.shell('date -s "-60 seconds"');
      await moorage.killAgent(node);
      await moorage.whenServing(node);
    });
    await node.shell('date -s "+60 seconds"');
    await cluster.kubectl('delete', 'csinode', node.name);
    await eventually(
      'both are found',
      async () => {
        const found = await findings();
        const isLost = found.includes(
          `registration: The kubelet of node ${node.name} does not know the driver, although the agent is ready: it may use another directory.`,
        );
        return isLost && found.some((each) => /^clock: The clock of node node-b is [56]\d s ahead/.test(each));
      },
      { explain: async () => (await findings()).join('\n') },
    );
  });
});
