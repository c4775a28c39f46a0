import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext } from 'node:test';
import { stringify } from 'yaml';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { values } from '../../worlds/cluster/values.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { namespace } from '../chart/chart.ts';
import { AgentFaults } from './agent-faults.ts';
import { nothingLeft } from './nothing-left.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

const home = join(import.meta.dirname, '..', '..');
const lvmOfImage = { ...values, lvmd: { ...values.lvmd, lvmCommandPrefix: ['/sbin/lvm'] } };
const lvmdOfMachine = { ...values, lvmd: { managed: false } };

/** One after the other on the same volumes, like a cluster whose configuration changes. */
describe('which LVM creates the volumes', () => {
  let cluster: Cluster;
  let node: ClusterNode;
  let moorage: Moorage;
  let ns: TestNamespace;
  const step = story();

  before(async () => {
    cluster = await Cluster.start({ nodes: 1, memoryMb: 1536 });
    node = cluster.node('a');
    await node.shell('mkdir -p /run/udev'); // every real node has it, but these have no udev
    moorage = await Moorage.install(cluster, { values: lvmOfImage });
    const agents = ['-n', namespace, 'daemonset/moorage-node'] as const;
    await cluster.kubectl('set', 'env', ...agents, 'DM_DISABLE_UDEV=1'); // so LVM must create the device nodes itself
    await cluster.kubectl('rollout', 'status', ...agents, '--timeout=280s');
    ns = await TestNamespace.create(cluster, 'own');
  });
  after(() => cluster?.stop());

  step("the image's, in the agent's container", async (t) => {
    await createdAndWritten('by-image');
    assert.equal(
      await askOfLvm(t, 'made-by-image', 'readlink /proc/$lvm/ns/mnt'),
      await node.shell("readlink /proc/$(pgrep -of '[m]oorage.mjs node ')/ns/mnt"),
    );
  });

  step("the node's own, by nsenter", async (t) => {
    await moorage.reconfigure(values);
    await createdAndWritten('by-node');
    assert.equal(
      await askOfLvm(t, 'made-by-node', 'readlink /proc/$lvm/ns/mnt'),
      await node.shell('readlink /proc/1/ns/mnt'),
    );
  });

  step("the node's own, by an lvmd that runs there as a service", async (t) => {
    await startLvmd(node);
    await moorage.reconfigure(lvmdOfMachine);
    await createdAndWritten('by-lvmd');
    assert.equal(
      await askOfLvm(t, 'made-by-lvmd', 'cut -d" " -f4 /proc/$lvm/stat'),
      await node.shell("pgrep -of '[m]oorage.mjs lvmd '"),
    );
  });

  step('all of them are ordinary volumes', async () => {
    for (const claim of ['by-image', 'by-node', 'by-lvmd']) {
      assert.equal(await ns.sh(claim, 'cat /data/file'), claim);
      await ns.grow(claim, '200Mi');
      await ns.grown(claim, '200Mi');
    }
    await ns.empty();
    await nothingLeft(cluster, moorage);
  });

  async function createdAndWritten(name: string): Promise<void> {
    await ns.claim(name);
    await ns.pod(name, { claims: { '/data': name } });
    await ns.ready(name);
    await ns.sh(name, `echo ${name} >/data/file && sync`);
  }

  /** Runs a script on the LVM process, which is kept busy with a claim's volume meanwhile; returns its output. */
  async function askOfLvm(t: TestContext, claim: string, script: string): Promise<string> {
    const letLvmGoOn = await new AgentFaults(cluster, moorage, node).holdLvm(t);
    await ns.claim(claim, { node: node.name });
    const answer = await eventually('LVM is running', () => node.shell(`set -e; lvm=$(pgrep -ox lvm); ${script}`));
    await letLvmGoOn();
    await ns.volumeId(claim);
    return answer;
  }
});

/** Like systemd, restarts it until no agent runs an engine of its own. */
async function startLvmd(node: ClusterNode): Promise<void> {
  const { dir } = node.machine;
  const config = join(dir, 'lvmd.yaml');
  await writeFile(
    config,
    stringify({ 'lvm-command-prefix': ['/sbin/lvm'], 'device-classes': values.lvmd.deviceClasses }),
  );
  const lvmd = `${process.execPath} ${home}/dist/moorage.mjs lvmd --config=${config} --metrics-addr=127.0.0.1:9812`;
  await writeFile(join(dir, 'lvmd.sh'), `until ${lvmd}; do sleep 1; done </dev/null >>${dir}/lvmd.log 2>&1 &\n`);
  await node.shell(`setsid sh ${dir}/lvmd.sh`);
}
