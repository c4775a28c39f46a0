import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName } from '../../src/api/names.ts';
import { persistentVolumeClaims, persistentVolumes, pods } from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { stage } from '../../worlds/host/progress.ts';
import { type Statistics, statisticsOf } from '../statistics.ts';
import { table } from '../table.ts';

const run = promisify(execFile);
const volumeCount = 20_000;
const rounds = 5;
const requestsAtOnce = 32;
const namespace = 'bench';

export interface PluginResults {
  readonly volumes: number;
  readonly sides: readonly SideResults[];
}

interface SideResults {
  readonly command: string;
  readonly ms: Statistics;
  /** The largest resident set of any run. */
  readonly peakMiB: number;
}

/** `kubectl moorage volumes` and `kubectl get` of the same objects, by turns, with 20,000 volumes. */
export async function measurePlugin(): Promise<PluginResults> {
  await stage('Moorage', () => run(process.execPath, ['scripts/build.ts']));
  const cluster = await Cluster.start({ nodes: 0 });
  try {
    await cluster.kubectl('apply', '-fdeploy/crd.yaml');
    await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
    await cluster.kube.create(namespaces, { metadata: { name: namespace } });
    await cluster.kubectl('-n', namespace, 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
    // They would spend the machine on objects that have no node.
    await cluster.controlPlane.controllerManager.pause();
    await cluster.controlPlane.scheduler.pause();
    await stage(`${volumeCount} volumes`, (say) => createVolumes(cluster, say));
    const kinds = 'logicalvolumes,persistentvolumes,persistentvolumeclaims,pods';
    const sides = [
      { command: 'kubectl get', argv: [cluster.binaries.kubernetes.kubectl, 'get', kinds, '-A'] },
      { command: 'kubectl get -o json', argv: [cluster.binaries.kubernetes.kubectl, 'get', kinds, '-A', '-o', 'json'] },
      { command: 'kubectl moorage volumes', argv: [process.execPath, 'dist/kubectl-moorage.cjs', 'volumes', '-A'] },
    ].map((side) => ({ ...side, ms: [] as number[], peakMiB: 0 }));
    for (let round = 1; round <= rounds; round++) {
      for (const side of sides) {
        const { ms, peakMiB } = await stage(`${side.command}, round ${round}`, () =>
          timed(side.argv, cluster.kubeconfig),
        );
        side.ms.push(ms);
        side.peakMiB = Math.max(side.peakMiB, peakMiB);
      }
    }
    return {
      volumes: volumeCount,
      sides: sides.map(({ command, ms, peakMiB }) => ({ command, ms: statisticsOf(ms), peakMiB })),
    };
  } finally {
    await cluster.stop();
  }
}

export function pluginTables({ volumes, sides }: PluginResults): string {
  const rows = sides.map(({ command, ms, peakMiB }) => [
    command,
    `${ms.min} / ${ms.median} / ${ms.p95}`,
    String(Math.round(peakMiB)),
  ]);
  return table([[`${volumes} volumes`, 'ms, min / median / p95', 'peak RSS, MiB'], ...rows]);
}

async function createVolumes({ kube }: Cluster, say: (detail: string) => void): Promise<void> {
  const numbers = Array.from({ length: volumeCount }, (_, i) => i).values();
  const worker = async () => {
    for (const i of numbers) {
      if (i % 1000 === 0) say(`${i}`);
      const name = `pvc-${i}`;
      const claim = `data-${i}`;
      const resources = { requests: { storage: '1Gi' } };
      await kube.create(logicalVolumes, {
        metadata: { name },
        spec: { name, nodeName: `node-${i % 100}`, size: '1Gi' },
      });
      const status = { volumeID: `id-${i}`, currentSize: '1Gi', code: 0 };
      await kube.patch(logicalVolumes, name, { type: 'merge', body: { status } }, { subresource: 'status' });
      await kube.create(persistentVolumes, {
        metadata: { name },
        spec: {
          accessModes: ['ReadWriteOnce'],
          capacity: { storage: '1Gi' },
          csi: { driver: driverName, volumeHandle: `id-${i}` },
          claimRef: { namespace, name: claim },
        },
      });
      const volume = { accessModes: ['ReadWriteOnce'], storageClassName: '', resources, volumeName: name };
      await kube.create(persistentVolumeClaims, { metadata: { name: claim, namespace }, spec: volume });
      await kube.create(pods, {
        metadata: { name: `pod-${i}`, namespace },
        spec: {
          containers: [{ name: 'main', image: 'none' }],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }],
        },
      });
    }
  };
  await Promise.all(Array.from({ length: requestsAtOnce }, worker));
}

async function timed(argv: readonly string[], kubeconfig: string): Promise<{ ms: number; peakMiB: number }> {
  const [program = '', ...args] = argv;
  const started = performance.now();
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, KUBECONFIG: kubeconfig },
  });
  const exited = once(child, 'exit').then(([code]) => {
    if (code !== 0) throw new Error(`${argv.join(' ')} ended with exit code ${code}`);
    return performance.now() - started;
  });
  let peakMiB = 0;
  while (child.exitCode === null && child.signalCode === null) {
    // The kernel keeps the peak, so that the last look before the end is enough.
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '');
    peakMiB = Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? peakMiB * 1024) / 1024;
    await delay(10);
  }
  return { ms: await exited, peakMiB };
}
