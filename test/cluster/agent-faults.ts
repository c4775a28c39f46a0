import type { TestContext } from 'node:test';
import { pods } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, thin, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { isReady } from '../../worlds/cluster/ready.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { namespace } from '../chart/chart.ts';

/** In the agent's image. */
const mkfs = '/usr/sbin/mkfs.ext4';
/** In the agent's container, whose /run is empty when the pod starts. */
const gate = '/run/mkfs-gate';

/** Faults of a node's agent, or of the programs that it waits for, in the middle of its work. */
export class AgentFaults {
  readonly #cluster: Cluster;
  readonly #moorage: Moorage;
  readonly #node: ClusterNode;

  constructor(cluster: Cluster, moorage: Moorage, node: ClusterNode) {
    this.#cluster = cluster;
    this.#moorage = moorage;
    this.#node = node;
  }

  /** From now on mkfs.ext4 of this agent waits at its start until it is released. The next agent is not affected. */
  async holdMkfs(): Promise<void> {
    await this.#inContainer(
      `mkdir $root${gate} && cp $root${mkfs} $root${gate}/mkfs.ext4
       cat >$root${gate}/held <<'SCRIPT'
#!/bin/sh
echo $$ >${gate}/begun
kill -STOP $$
exec ${gate}/mkfs.ext4 "$@"
SCRIPT
       chmod +x $root${gate}/held
       nsenter --target $agent --mount mount --bind ${gate}/held ${mkfs}`,
    );
  }

  /** Resolves when it waits; returns how to continue it, in case it outlives the agent. */
  async mkfsBegun(): Promise<() => Promise<void>> {
    const pid = await eventually(`mkfs has begun on ${this.#node.name}`, async () => {
      const written = await this.#inContainer(`cat $root${gate}/begun`);
      return written.trim() || undefined;
    });
    return async () => {
      await this.#node.shell(`kill -CONT ${pid} 2>/dev/null || true`);
    };
  }

  /** Takes the locks that block LVM in the middle of its next command; returns how to release them before the end of the test. */
  async holdLvm(t: TestContext): Promise<() => Promise<void>> {
    // LVM removes the file of a free lock, so the locked file may no longer be the one at this path.
    const holders = await this.#node.shell(
      `for group in ${volumeGroup} ${thin.volumeGroup}; do
         lock=/run/lock/lvm/V_$group
         until exec 9>>$lock && flock 9 && [ $lock -ef /proc/self/fd/9 ]; do :; done
         sleep infinity >/dev/null 2>&1 & echo $!
       done`,
    );
    const release = async () => {
      await this.#node.shell(`kill ${holders.trim().split(/\s+/).join(' ')} 2>/dev/null || true`);
    };
    undoAfter(t, release);
    return release;
  }

  /** Like the kernel when memory runs out. The kubelet restarts the agent. */
  async kill(): Promise<void> {
    await this.#moorage.killAgent(this.#node);
  }

  /** Like an upgrade: the agent is told to stop, and another pod replaces it. Resolves when it was told. */
  async replace(): Promise<void> {
    const { metadata } = await this.#moorage.agentOn(this.#node);
    await this.#cluster.kube.delete(pods, metadata.name, { namespace });
  }

  async serves(): Promise<void> {
    await eventually(
      `an agent serves ${this.#node.name}`,
      async () => isReady(await this.#moorage.agentOn(this.#node)),
      {
        explain: () => this.#cluster.tails(),
      },
    );
  }

  /** Runs a script on the node, with the agent's pid in $agent and its files below $root. */
  async #inContainer(script: string): Promise<string> {
    return this.#node.shell(`agent=$(pgrep -f '[m]oorage.mjs node ')\nroot=/proc/$agent/root\n${script}`);
  }
}
