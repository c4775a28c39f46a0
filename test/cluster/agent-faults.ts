import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClusterNode } from '../worlds/cluster/cluster-node.ts';
import { agentPidFile } from '../worlds/cluster/moorage.ts';
import { eventually } from '../worlds/host/eventually.ts';

const gate = '/run/mkfs-gate';
const marker = '{"msg":"another build"}';

/** What can happen to a node's agent, or to the programs that it waits for, in the middle of its work. */
export class AgentFaults {
  readonly #node: ClusterNode;

  constructor(node: ClusterNode) {
    this.#node = node;
  }

  /** From now on mkfs.ext4 waits before it begins, until it is released. */
  async holdMkfs(): Promise<void> {
    await this.#node.shell(
      `mkdir -p ${gate} && cp "$(readlink -f "$(command -v mkfs.ext4)")" ${gate}/mkfs.ext4
       cat >${gate}/held <<'SCRIPT'
#!/bin/sh
touch ${gate}/begun
while [ -e ${gate}/closed ]; do sleep 0.1; done
exec ${gate}/mkfs.ext4 "$@"
SCRIPT
       chmod +x ${gate}/held && touch ${gate}/closed && mount --bind ${gate}/held "$(command -v mkfs.ext4)"`,
    );
  }

  async mkfsBegun(): Promise<void> {
    await eventually(`mkfs has begun on ${this.#node.name}`, async () =>
      (await this.#node.shell(`ls ${gate}`)).includes('begun'),
    );
  }

  async releaseMkfs(): Promise<void> {
    await this.#node.shell(`rm -f ${gate}/closed ${gate}/begun; umount -l "$(command -v mkfs.ext4)"`);
  }

  /** Stops LVM in the middle of whatever it does or is told next; returns how to let it go on, which outlives the agent. */
  async holdLvm(): Promise<() => Promise<void>> {
    const held = await this.#node.shell('for p in $(pgrep -x lvm); do kill -STOP $p && echo $p; done');
    const pids = held.trim().split(/\s+/);
    if (pids[0] === '') throw new Error(`the agent of ${this.#node.name} runs no LVM`);
    return async () => {
      await this.#node.shell(`for p in ${pids.join(' ')}; do kill -CONT $p 2>/dev/null || true; done`);
    };
  }

  /** As the kernel does when memory is short. The agent comes back by itself. */
  async kill(): Promise<void> {
    await this.#node.shell(`kill -KILL $(cat ${agentPidFile})`);
  }

  /** As a new image does: the agent is asked to end, and another build comes back in its place. */
  async upgrade(): Promise<void> {
    const bundle = join(this.#node.machine.dir, 'moorage.mjs');
    const another = `process.stderr.write('${marker}\\n');\n${await readFile(bundle, 'utf8')}`;
    await writeFile(`${bundle}.new`, another);
    await rename(`${bundle}.new`, bundle);
    await this.#node.shell(`kill -TERM $(cat ${agentPidFile})`);
  }

  async runsAnotherBuild(): Promise<void> {
    await eventually(`${this.#node.name} runs another build`, async () =>
      (await readFile(join(this.#node.machine.dir, 'moorage.log'), 'utf8')).includes(marker),
    );
  }
}
