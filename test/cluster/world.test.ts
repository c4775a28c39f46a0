import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { testEnvironment } from '../../worlds/host/environment.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { spawn } from '../../worlds/host/processes.ts';
import { newRunDir } from '../../worlds/host/run-dir.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

describe('a cluster of two nodes', () => {
  let cluster: Cluster;
  before(async () => {
    cluster = await Cluster.start({ nodes: 2 });
  });
  after(() => cluster?.stop());

  test('a node that loses power comes back with its disks', async () => {
    const node = cluster.node('a');
    await node.shell(`lvcreate -y -L 64M -n kept ${volumeGroup}`);

    await node.kill();
    await node.boot();

    assert.match(await node.shell(`lvs ${volumeGroup}`), /kept/);
  });

  test('a wiped node comes back with empty disks', async () => {
    const node = cluster.node('a');
    await node.shell(`lvcreate -y -L 64M -n lost ${volumeGroup}`);

    await node.wipe();
    await node.boot();

    assert.doesNotMatch(await node.shell(`lvs ${volumeGroup}`), /lost/);
  });

  test('a node without network is NotReady, still runs scripts, and recovers', async (t) => {
    const node = cluster.node('b');
    undoAfter(t, () => node.heal());

    await node.cut();
    await node.becomes('NotReady');
    assert.equal((await node.shell('hostname')).trim(), 'node-b');

    await node.heal();
    await node.becomes('Ready');
  });

  test('the error of a failed script on a node contains its output', async () => {
    await assert.rejects(cluster.node('b').shell('echo out; echo oops >&2; exit 3'), /exit code 3.*\n[^]*oops/);
  });

  test('a paused program can be stopped', async () => {
    const sleeper = new Component(cluster.namespaces, cluster.dir, 'sleeper', ['sleep', 'infinity']);
    sleeper.start();
    const pid = await eventually('it runs', () => sleeper.pid());
    await sleeper.pause();
    await sleeper.kill();

    assert.equal(existsSync(`/proc/${pid}`), false);
  });

  test('a program that ends by itself is started again; one that was killed and started again is not', async () => {
    const keptProgram = async (name: string, number: number) => {
      const command = ['sleep', String(number + process.pid)]; // no other process has this command line
      const pids = () => readdirSync('/proc').filter((pid) => commandLineOf(pid) === [...command, ''].join('\0'));
      const program = new Component(cluster.namespaces, cluster.dir, name, command);
      program.keepRunning();
      return { program, pids, pid: await eventually(`${name} runs`, async () => pids()[0]) };
    };
    const one = await keptProgram('one', 1_000_000);
    await one.program.kill();
    one.program.keepRunning();
    const other = await keptProgram('other', 2_000_000);
    process.kill(Number(other.pid), 'SIGKILL');
    await eventually('it is another process', async () => ![other.pid, undefined].includes(other.pids()[0]));
    assert.equal(one.pids().length, 1, 'a restart of it would have been due before');
    for (const { program, pids } of [one, other]) {
      await program.kill();
      assert.deepEqual(pids(), []);
    }
  });

  test('nodes can be registered without a machine', async () => {
    await cluster.registerNodes(500);

    const names = (await cluster.kubectl('get', 'nodes', '-oname')).trim().split('\n');
    assert.equal(names.length, 502);
  });
});

describe('the processes of a cluster', () => {
  const starter = join(import.meta.dirname, 'start-cluster.ts');

  test('they end when their owner is killed', async () => {
    const dir = await startElsewhere('dies');

    await eventually('all processes of the cluster are gone', async () => processesOf(dir).length === 0);
    const next = await newRunDir('cluster');
    assert.equal(existsSync(dir), false, 'the next run removes its files');
    await Cluster.end(next);
  });

  test('those of a detached cluster run until another process ends them', async () => {
    const dir = await startElsewhere('stays');
    assert.notEqual(processesOf(dir).length, 0);

    await Cluster.end(dir);

    await eventually('all processes of the cluster are gone', async () => processesOf(dir).length === 0);
    assert.equal(existsSync(dir), false);
  });

  /** Starts a cluster in another process, kills that process, and returns the directory of the cluster's state. */
  async function startElsewhere(fate: 'dies' | 'stays'): Promise<string> {
    const owner = spawn(process.execPath, [starter, fate], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: testEnvironment(),
    });
    const line = await Promise.race([
      once(owner.stdout.setEncoding('utf8'), 'data').then(([text]) => String(text)),
      once(owner, 'exit').then(() => Promise.reject(new Error('no cluster was started'))),
    ]);
    owner.kill('SIGKILL');
    await once(owner, 'exit');
    return line.trim();
  }

  /** Processes with the directory in their command line, as all components and machines have. */
  function processesOf(dir: string): string[] {
    return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandLineOf(pid).includes(dir));
  }
});

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return ''; // it ended while we looked
  }
}
