import { join } from 'node:path';
import { driverName, onDrain, topologyKey } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { nodes, persistentVolumeClaims, persistentVolumes, pods } from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { startEvictionWebhook } from '../../test/kube/eviction-webhook.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { fetchInside } from '../../worlds/cluster/fetch-inside.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { execute } from '../../worlds/host/processes.ts';
import { stage } from '../../worlds/host/progress.ts';
import { type Statistics, statisticsOf } from '../statistics.ts';
import { table } from '../table.ts';
import type { Answers } from './inside.ts';

const podCount = 10_000;
const claimCount = 1_000;
const nodeCount = 100;
/** The nodes that are drained; volumes on them move. */
const drainedCount = 1;
const namespace = 'bench';

export interface EvictionsResults {
  readonly pods: number;
  readonly memoryMiB: number;
  readonly sides: readonly { readonly answer: string; readonly atOnce: number; readonly ms: Statistics }[];
}

/** How fast the eviction webhook answers: a controller as it is deployed, with real watches of 10,000 pods. */
export async function measureEvictions(): Promise<EvictionsResults> {
  await stage('Moorage', () => execute(process.execPath, ['scripts/build.ts']));
  const cluster = await Cluster.start({ nodes: 0 });
  try {
    await stage(`${podCount} pods`, (say) => createObjects(cluster, say));
    const controller = await startEvictionWebhook({ cluster, admin: cluster.kube });
    const metrics = () => fetchInside(cluster.namespaces, 'http://127.0.0.1:8080/metrics');
    await eventually(
      'it knows all pods',
      async () => new RegExp(`moorage_watch_objects{[^}]*runningpods[^}]*} ${podCount}\\b`).test(await metrics()),
      { explain: async () => controller.tail() },
    );
    // Its moves cannot begin; then it has nothing else to do.
    const idle = /^moorage_queue_keys{queue="volume-moves",state="(waiting|running)"} [1-9]/m;
    await eventually('it is idle', async () => !idle.test(await metrics()), { explain: async () => controller.tail() });
    const inside = async (answer: string, first: number, step: number, atOnce: number) => {
      const [program, ...words] = [
        ...cluster.namespaces.enter,
        process.execPath,
        join(import.meta.dirname, 'inside.ts'),
      ];
      const { stdout } = await execute(program, [
        ...words,
        String(first),
        String(step),
        String(podCount),
        String(atOnce),
      ]);
      const { ms, allowed } = JSON.parse(stdout) as Answers;
      if (allowed !== (answer === 'passes')) throw new Error(`evictions of these pods must be: ${answer}`);
      return { answer, atOnce, ms: statisticsOf(ms) };
    };
    const sides = [];
    for (const atOnce of [1, 8]) {
      // Pod i is on node i % 100, of which the first one is drained.
      sides.push(await stage(`passes, ${atOnce} at once`, () => inside('passes', drainedCount, nodeCount, atOnce)));
      sides.push(await stage(`waits, ${atOnce} at once`, () => inside('waits for a move', 0, nodeCount, atOnce)));
    }
    const resident = /^process_resident_memory_bytes (\S+)/m.exec(await metrics())?.[1];
    return { pods: podCount, memoryMiB: Math.round(Number(resident) / 1024 ** 2), sides };
  } finally {
    await cluster.stop();
  }
}

export function evictionsTables({ pods: known, memoryMiB, sides }: EvictionsResults): string {
  const rows = sides.map(({ answer, atOnce, ms }) => [
    answer,
    String(atOnce),
    `${ms.median} / ${ms.p95} / ${ms.p99}`,
    String(ms.samples),
  ]);
  const header = ['the eviction', 'at once', 'ms, median / p95 / p99', 'answers'];
  return [`With ${known} pods; the controller has ${memoryMiB} MiB:`, table([header, ...rows])].join('\n');
}

async function createObjects(cluster: Cluster, say: (detail: string) => void): Promise<void> {
  const { kube } = cluster;
  await cluster.kubectl('apply', '-fdeploy/crd.yaml');
  await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
  await kube.create(namespaces, { metadata: { name: namespace } });
  await cluster.kubectl('-n', namespace, 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
  // They would spend the machine on objects that have no node.
  await cluster.controlPlane.controllerManager.kill();
  await cluster.controlPlane.scheduler.kill();
  for (let i = 0; i < nodeCount; i++) {
    await kube.create(nodes, { metadata: { name: `node-${i}` }, spec: { unschedulable: i < drainedCount } });
  }
  await inFlight(claimCount, (i) => createClaim(cluster, i));
  await inFlight(podCount, async (i) => {
    if (i % 1000 === 0) say(`${i}`);
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: `data-${i % claimCount}` } }];
    const spec = { nodeName: `node-${i % nodeCount}`, containers: [{ name: 'main', image: 'none' }], volumes };
    await kube.create(pods, { metadata: { name: `pod-${i}`, namespace }, spec });
  });
}

/** Its volume waits for its move, if its node is drained. */
async function createClaim({ kube }: Cluster, i: number): Promise<void> {
  const [name, claim] = [`pvc-${i}`, `data-${i}`];
  const onNode = { matchExpressions: [{ key: topologyKey, operator: 'In', values: [`node-${i % nodeCount}`] }] };
  const accessModes = ['ReadWriteOnce'];
  await kube.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes,
      capacity: { storage: '1Gi' },
      csi: { driver: driverName, volumeHandle: `id-${i}` },
      claimRef: { namespace, name: claim },
      nodeAffinity: { required: { nodeSelectorTerms: [onNode] } },
    },
  });
  const resources = { requests: { storage: '1Gi' } };
  await kube.create(persistentVolumeClaims, {
    metadata: { name: claim, namespace, annotations: { [onDrain.annotation]: 'move' } },
    spec: { accessModes, storageClassName: '', resources, volumeName: name },
  });
  if (i % nodeCount >= drainedCount) return;
  await kube.create(volumeMoves, { metadata: { name: claim, namespace }, spec: { claimName: claim, patient: true } });
}

async function inFlight(count: number, create: (i: number) => Promise<void>): Promise<void> {
  const numbers = Array.from({ length: count }, (_, i) => i).values(); // shared by all workers
  const worker = async () => {
    for (const i of numbers) await create(i);
  };
  await Promise.all(Array.from({ length: 32 }, worker));
}
