import { setTimeout as delay } from 'node:timers/promises';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { csiDrivers, csiNodes, nodes, storageClasses } from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { stage } from '../../worlds/host/progress.ts';
import { statisticsOf } from '../statistics.ts';
import type { CapacityResults, SideResults } from './results.ts';
import { namespaceOf, Side, type SideName } from './side.ts';

const nodeCounts = [3, 1000];
const limitMs = 60_000;
const changes = 20;
/** Longer than either side's minimum interval between two writes of one object. */
const pauseMs = 1500;
const idleMs = 20_000;
const requestsAtOnce = 16;

/** How soon capacity reaches the scheduler, published by Moorage's controller and by csi-provisioner, with Node objects only. */
export async function measureCapacity(): Promise<CapacityResults> {
  const cluster = await Cluster.start({ nodes: 0 });
  try {
    await cluster.kubectl('apply', '-fdeploy/crd.yaml');
    for (const name of Object.values(namespaceOf)) await cluster.kube.create(namespaces, { metadata: { name } });
    await cluster.kube.create(csiDrivers, { metadata: { name: driverName }, spec: { storageCapacity: true } });
    const results: SideResults[] = [];
    for (const count of nodeCounts) {
      await stage(`${count} nodes`, () => createNodes(cluster, count));
      for (const name of ['Moorage', 'csi-provisioner'] as const) {
        results.push(await stage(`${name}, ${count} nodes`, (say) => measureSide(cluster, name, count, say)));
      }
    }
    return { sides: results };
  } finally {
    await cluster.stop();
  }
}

async function measureSide(
  cluster: Cluster,
  name: SideName,
  nodeCount: number,
  say: (detail: string) => void,
): Promise<SideResults> {
  const side = await Side.start(cluster, name);
  const storageClass = `class-${name.toLowerCase()}-${nodeCount}`;
  try {
    say('a new class');
    await side.until(() => false, 5000); // time to read the existing objects
    await cluster.kube.create(storageClasses, {
      metadata: { name: storageClass },
      provisioner: driverName,
      volumeBindingMode: 'WaitForFirstConsumer',
      parameters: { 'topolvm.io/device-class': 'ssd' },
    });
    const all = side.until(() => side.count(storageClass) === nodeCount, limitMs);
    const firstMs = await side.until(() => side.count(storageClass) > 0, limitMs);
    const allMs = await all;
    const afterLimit = side.count(storageClass);

    say('idle');
    const idleCpuPercent = await side.cpuPercent(idleMs);

    say('single changes');
    const delays: number[] = [];
    const measured = allMs === undefined ? 0 : changes; // while some nodes are still missing, a change waits behind them
    for (let i = 1; i <= measured; i++) {
      const free = i * 2 ** 20;
      await setRoom(cluster, 'bench-0', free);
      delays.push((await side.until(() => side.count(storageClass, `${i}Mi`) === 1, limitMs)) ?? limitMs);
      await delay(pauseMs);
    }

    say('a change on every node');
    const writes = side.countWrites();
    const started = performance.now();
    await onEach(nodeCount, (i) => setRoom(cluster, `bench-${i}`, 7 * 2 ** 30));
    const patchedMs = performance.now() - started;
    const settledMs = await side.until(() => side.count(storageClass, '7Gi') === nodeCount, limitMs);
    const seconds = (performance.now() - started) / 1000;
    return {
      side: name,
      nodes: nodeCount,
      newClass: { firstMs, allMs, objects: afterLimit },
      idleCpuPercent,
      change: delays.length > 0 ? statisticsOf(delays) : undefined,
      everyNode: { patchedMs, settledMs, writesPerSecond: writes() / seconds },
    };
  } finally {
    await cluster.kube.delete(storageClasses, storageClass);
    await side.stop();
  }
}

async function createNodes(cluster: Cluster, count: number): Promise<void> {
  await onEach(count, async (i) => {
    const name = `bench-${i}`;
    if (await cluster.kube.get(nodes, name)) return;
    await cluster.kube.create(nodes, { metadata: { name, labels: { [topologyKey]: name } } });
    const drivers = [{ name: driverName, nodeID: name, topologyKeys: [topologyKey] }];
    await cluster.kube.create(csiNodes, { metadata: { name }, spec: { drivers } });
    await setRoom(cluster, name, 2 ** 30);
  });
}

async function setRoom(cluster: Cluster, name: string, bytes: number): Promise<void> {
  const metadata = { annotations: { 'capacity.topolvm.io/ssd': String(bytes) } };
  await cluster.kube.patch(nodes, name, { type: 'merge', body: { metadata } });
}

async function onEach(count: number, work: (i: number) => Promise<void>): Promise<void> {
  const numbers = Array.from({ length: count }, (_, i) => i).values();
  const worker = async () => {
    for (const i of numbers) await work(i);
  };
  await Promise.all(Array.from({ length: requestsAtOnce }, worker));
}
