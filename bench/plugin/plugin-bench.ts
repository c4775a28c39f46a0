import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { execute, spawn } from '../../worlds/host/processes.ts';
import { stage } from '../../worlds/host/progress.ts';
import { statisticsOf } from '../statistics.ts';
import { createObjects, nodeCount, volumeCount } from './objects.ts';
import type { PluginResults } from './results.ts';

const rounds = 5;

/** What each command of the plugin reads, and so what kubectl is asked for. */
const objectsOfVolumes = 'logicalvolumes,persistentvolumes,persistentvolumeclaims,pods';
const allObjects = `${objectsOfVolumes},nodes,nodestorages`;
const commands = {
  'volumes -A': objectsOfVolumes,
  status: allObjects,
  orphans: allObjects,
  nodes: 'nodestorages',
} as const;

/** `kubectl moorage` and `kubectl get` of the same objects, by turns, with 20,000 volumes on 100 nodes. */
export async function measurePlugin(): Promise<PluginResults> {
  await stage('Moorage', () => execute(process.execPath, ['scripts/build.ts']));
  const cluster = await Cluster.start({ nodes: 0 });
  const { kubectl } = cluster.binaries.kubernetes;
  try {
    await stage(`${volumeCount} volumes`, (say) => createObjects(cluster, say));
    const sides = Object.entries(commands).flatMap(([command, kinds]) => [
      { command, side: 'kubectl get' as const, argv: [kubectl, 'get', kinds, '-A'] },
      {
        command,
        side: 'kubectl moorage' as const,
        argv: [process.execPath, 'dist/kubectl-moorage.cjs', ...command.split(' ')],
      },
    ]);
    const measured = sides.map((side) => ({ ...side, runs: [] as Run[] }));
    for (let round = 1; round <= rounds; round++) {
      for (const { runs, argv, side, command } of measured) {
        runs.push(await stage(`${side}, for ${command}, round ${round}`, () => timed(argv, cluster.kubeconfig)));
      }
    }
    return {
      volumes: volumeCount,
      nodes: nodeCount,
      sides: measured.map(({ command, side, runs }) => ({
        command,
        side,
        ms: statisticsOf(runs.map(({ ms }) => ms)),
        cpuMs: statisticsOf(runs.map(({ cpuMs }) => cpuMs)),
        peakMiB: Math.max(...runs.map(({ peakMiB }) => peakMiB)),
      })),
    };
  } finally {
    await cluster.stop();
  }
}

interface Run {
  readonly ms: number;
  readonly cpuMs: number;
  /** The largest resident set. */
  readonly peakMiB: number;
}

/** The kernel counts in hundredths of a second, on every architecture. */
const tickMs = 10;

async function timed(argv: readonly string[], kubeconfig: string): Promise<Run> {
  const [program = '', ...args] = argv;
  const started = performance.now();
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { KUBECONFIG: kubeconfig },
  });
  const exited = once(child, 'exit').then(([code]) => {
    if (code !== 0) throw new Error(`${argv.join(' ')} ended with exit code ${code}`);
    return performance.now() - started;
  });
  let [cpuMs, peakMiB] = [0, 0];
  const proc = async (file: string) => readFile(`/proc/${child.pid}/${file}`, 'utf8').catch(() => '');
  while (child.exitCode === null && child.signalCode === null) {
    // The kernel adds up, so that the last look before the end is enough.
    const [, user = '0', system = '0'] = /\) \S(?: \S+){10} (\d+) (\d+) /.exec(await proc('stat')) ?? [];
    cpuMs = Math.max(cpuMs, (Number(user) + Number(system)) * tickMs);
    peakMiB = Math.max(peakMiB, Number(/VmHWM:\s+(\d+) kB/.exec(await proc('status'))?.[1] ?? 0) / 1024);
    await delay(5);
  }
  return { ms: await exited, cpuMs, peakMiB };
}
