import { join } from 'node:path';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { run } from '../../worlds/host/processes.ts';
import { stage } from '../../worlds/host/progress.ts';
import { quote } from '../../worlds/machine/quote.ts';
import { ensureTopolvm } from '../topolvm/topolvm.ts';
import type { ApiRequests } from './api-requests.ts';
import { createForeignVolumes, type MemoryAfterLoad, memoryAfterLoad } from './memory.ts';
import { mooragePrograms, topolvmPrograms } from './programs.ts';
import { type ProvisionResults, resultsOf } from './results.ts';
import { type Sample, takeBurst, takeCrowdedTurn, takeTurn } from './rounds.ts';
import { Side, type SideName } from './side.ts';

const home = join(import.meta.dirname, '..', '..');
const timeoutMs = 10 * 60_000;
const memoryMb = 1024;
/** After this time each kind of turn runs only once, so that the benchmark ends within 15 minutes on a busy machine. */
const budgetMs = 6 * 60_000;
const turns = 3;
const turn = { volumes: 4, statsCalls: 4 };
const crowdedTurns = 2;
const crowdedStatsCalls = 8;
const otherVolumes = 200;
const foreignVolumes = 2000;

/** Compares provisioning with TopoLVM and with Moorage, on a real API server and in a machine with real LVM. */
export async function measureProvisioning(): Promise<ProvisionResults> {
  const topolvm = await ensureTopolvm();
  await stage('Moorage', () => run([process.execPath, join(home, 'scripts', 'build.ts')], { timeoutMs, cwd: home }));
  const cluster = await Cluster.start({ nodes: 1, memoryMb });
  const sides: Side[] = [];
  try {
    const node = cluster.node('a');
    await prepare(cluster, node);
    await stage('Both sides', async (say) => {
      for (const programs of [topolvmPrograms(topolvm), mooragePrograms()]) {
        say(`starting ${programs.name}`);
        const side = await Side.start(cluster, node, programs);
        sides.push(side);
        await side.pause();
      }
    });
    return await stage('Measuring', (say) => measure(cluster, node, sides, say));
  } finally {
    for (const side of sides) await side.close();
    await cluster.stop();
  }
}

async function prepare(cluster: Cluster, node: ClusterNode): Promise<void> {
  const manifests = ['crd', 'csidriver'].map((name) => `-f${join(home, 'deploy', `${name}.yaml`)}`);
  await cluster.kubectl('apply', ...manifests);
  // The machine's pods and kubelet are not measured, and would start processes of their own.
  await node.shell('kill -STOP $(pidof kubelet containerd)');
}

async function measure(
  cluster: Cluster,
  node: ClusterNode,
  sides: readonly Side[],
  say: (detail: string) => void,
): Promise<ProvisionResults> {
  const endBy = performance.now() + budgetMs;
  const samples: Sample[] = [];
  const api: Record<SideName, ApiRequests[]> = { topolvm: [], moorage: [] };
  /** Turns of both sides, each time in another order; when time runs out, all but the first are skipped. */
  const rounds = async (what: string, count: number, take: (side: Side) => Promise<readonly Sample[]>) => {
    for (let i = 0; i < count && (i === 0 || performance.now() < endBy); i++) {
      for (const side of i % 2 === 0 ? sides : sides.toReversed()) {
        say(`${what}: turn ${i + 1} of ${count}, ${side.name}`);
        samples.push(...(await take(side)));
      }
    }
  };
  await rounds('volumes one by one', turns, async (side) => {
    const taken = await takeTurn(cluster, node, side, turn);
    api[side.name].push(taken.api);
    return taken.samples;
  });
  await rounds('50 volumes by 8 clients', 1, takeBurst);
  say(`creating ${otherVolumes} other volumes`);
  await fill(node);
  await rounds('use among 200 others', crowdedTurns, (side) => takeCrowdedTurn(node, side, crowdedStatsCalls));

  await createForeignVolumes(cluster, foreignVolumes, say);
  const memory: Partial<Record<SideName, MemoryAfterLoad>> = {};
  for (const side of sides) {
    say(`memory of ${side.name}`);
    await side.resume(); // it creates a volume, so it has seen all earlier ones
    memory[side.name] = await memoryAfterLoad(node, side);
    await side.pause();
  }
  return resultsOf(samples, api, memory as Record<SideName, MemoryAfterLoad>);
}

/** Volumes that neither side created. */
async function fill(node: ClusterNode): Promise<void> {
  const script = Array.from(
    { length: otherVolumes },
    (_, i) => `lvcreate -y -W n -Z n -n other-${i} -L 4m ${volumeGroup}`,
  );
  await node.shell(`printf '%s\\n' ${script.map(quote).join(' ')} | lvm`, { timeoutMs });
  const created = await node.shell(`lvs --noheadings -o lv_name --select lv_name=~^other- ${volumeGroup} | wc -l`);
  if (Number(created) !== otherVolumes)
    throw new Error(`cannot create the other volumes: only ${created.trim()} of ${otherVolumes} exist`);
}
