import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { values } from '../../worlds/cluster/values.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { namespace } from '../chart/chart.ts';
import { AgentFaults } from './agent-faults.ts';
import { nothingLeft } from './nothing-left.ts';
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

  before(async () => {
    cluster = await Cluster.start({ nodes: 1, memoryMb: 1536 });
    node = cluster.node('a');
    await node.shell('mkdir -p /run/udev'); // every real node has it, but these have no udev
    moorage = await Moorage.install(cluster, { values: lvmOfImage });
    const agents = ['-n', namespace, 'daemonset/moorage-node'] as const;
    await cluster.kubectl('set', 'env', ...agents, 'DM_DISABLE_UDEV=1'); // so LVM must create the device nodes itself
    await cluster.kubectl('rollout', 'status', ...agents, '--timeout=180s');
    ns = await TestNamespace.create(cluster, 'own');
  });
  after(() => cluster.stop());

  test("the image's, in the agent's container", async () => {
    await createdAndWritten('by-image');
    assert.equal(
      await askOfLvm('made-by-image', 'readlink /proc/$lvm/ns/mnt'),
      await node.shell("readlink /proc/$(pgrep -of '[m]oorage.mjs node ')/ns/mnt"),
    );
  });

  test("the node's own, by nsenter", async () => {
    await moorage.reconfigure(values);
    await createdAndWritten('by-node');
    assert.equal(
      await askOfLvm('made-by-node', 'readlink /proc/$lvm/ns/mnt'),
      await node.shell('readlink /proc/1/ns/mnt'),
    );
  });

  test("the node's own, by an lvmd that runs there as a service", async () => {
    await startLvmd(node);
    await moorage.reconfigure(lvmdOfMachine);
    await createdAndWritten('by-lvmd');
    assert.equal(
      await askOfLvm('made-by-lvmd', 'cut -d" " -f4 /proc/$lvm/stat'),
      await node.shell("pgrep -of '[m]oorage.mjs lvmd '"),
    );
  });

  test('all of them are ordinary volumes', async () => {
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
  async function askOfLvm(claim: string, script: string): Promise<string> {
    const letLvmGoOn = await new AgentFaults(cluster, moorage, node).holdLvm();
    await ns.claim(claim, { node: node.name });
    try {
      return await eventually('LVM is running', () => node.shell(`set -e; lvm=$(pgrep -ox lvm); ${script}`));
    } finally {
      await letLvmGoOn();
      await ns.volumeId(claim);
    }
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
