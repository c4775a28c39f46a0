import { setTimeout as delay } from 'node:timers/promises';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import type { Side } from './side.ts';

const atOnce = 25;

/** The memory of a side's programs on a node, with their child processes, in MiB. */
export interface NodeMemory {
  readonly pssMib: number;
  readonly rssMib: number;
}

/** After load: right after the last change, and after some idle time. */
export interface MemoryAfterLoad {
  readonly busy: NodeMemory;
  readonly atRest: NodeMemory;
}

/** Longer than the idle timeout of LVM's shell. */
const restMs = 5000;

/** LogicalVolumes of nodes without machines: a program that watches all of them keeps them in memory. */
export async function createForeignVolumes(
  cluster: Cluster,
  count: number,
  say: (detail: string) => void,
): Promise<void> {
  const numbers = Array.from({ length: count }, (_, i) => i).values();
  const work = async () => {
    for (const i of numbers) {
      if (i % 100 === 0) say(`${i} of ${count} volumes of other nodes`);
      const name = `foreign-${i}`;
      await cluster.kube.create(logicalVolumes, {
        metadata: { name },
        spec: { name, nodeName: `elsewhere-${i % 50}`, size: '1Gi', deviceClass: 'lvm' },
      });
      const status = { volumeID: crypto.randomUUID(), currentSize: '1Gi' };
      const patch = { type: 'merge', body: { status } } as const;
      await cluster.kube.patch(logicalVolumes, name, patch, { subresource: 'status' });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

export async function memoryAfterLoad(node: ClusterNode, side: Side): Promise<MemoryAfterLoad> {
  const busy = await memoryOf(node, side);
  await delay(restMs);
  return { busy, atRest: await memoryOf(node, side) };
}

/** Read by a shell, because another program of the same kind would share memory with the measured ones. */
async function memoryOf(node: ClusterNode, { agentPids }: Side): Promise<NodeMemory> {
  const listing = await node.shell(`
    for pid in ${agentPids.join(' ')}; do
      echo /proc/$pid/smaps_rollup
      for stat in /proc/[0-9]*/stat; do
        read -r child name state parent rest <$stat && [ "$parent" = $pid ] && echo /proc/$child/smaps_rollup
      done
    done | sort -u | xargs cat`);
  const sum = (field: string) => {
    const values = [...listing.matchAll(new RegExp(`^${field}: +(\\d+) kB$`, 'gm'))];
    return Math.round(values.reduce((kib, [, value]) => kib + Number(value), 0) / 102.4) / 10;
  };
  return { pssMib: sum('Pss'), rssMib: sum('Rss') };
}
