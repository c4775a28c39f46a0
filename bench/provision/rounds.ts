import { join } from 'node:path';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { quote } from '../../worlds/machine/quote.ts';
import { type ApiRequests, apiRequests, perVolume } from './api-requests.ts';
import type { NodeRequest, NodeSample } from './inside.ts';
import type { Side, SideName, Volume } from './side.ts';

export const operations = [
  'create',
  'expand',
  'delete',
  'create 50',
  'delete 50',
  'first publish',
  're-publish',
  'unpublish',
  'stats',
  'first publish, 200 others',
  're-publish, 200 others',
  'unpublish, 200 others',
  'stats, 200 others',
] as const;
export type Operation = (typeof operations)[number];

export interface Sample {
  readonly side: SideName;
  readonly operation: Operation;
  readonly elapsedMs: number;
  /** Processes and threads that the machine started meanwhile, if counted. */
  readonly started?: number;
}

export interface Turn {
  readonly samples: readonly Sample[];
  /** API requests for the creation of a volume. */
  readonly api: ApiRequests;
}

const home = join(import.meta.dirname, '..', '..');
const burstVolumes = 50;
const burstClients = 8;
const insideTimeoutMs = 5 * 60_000;

/** One turn of one side: creates, uses, grows and removes volumes, one after the other. */
export async function takeTurn(
  cluster: Cluster,
  node: ClusterNode,
  side: Side,
  { volumes, statsCalls }: { readonly volumes: number; readonly statsCalls: number },
): Promise<Turn> {
  const samples: Sample[] = [];
  const time = async <T>(operation: Operation, work: () => Promise<T>): Promise<T> => {
    const startedMs = performance.now();
    const result = await work();
    samples.push({ side: side.name, operation, elapsedMs: performance.now() - startedMs });
    return result;
  };
  await side.resume();
  const before = await apiRequests(cluster);
  const created: Volume[] = [];
  for (let i = 0; i < volumes; i++) created.push(await time('create', () => side.create(`turn-${i}`)));
  const api = perVolume(before, await apiRequests(cluster), volumes);
  samples.push(...(await useVolumes(node, side, created, statsCalls)));
  for (const volume of created) await time('expand', () => side.grow(volume));
  for (const volume of created) await time('delete', () => side.delete(volume));
  await side.pause();
  return { samples, api };
}

/** The same only on the node, among many other volumes. */
export async function takeCrowdedTurn(node: ClusterNode, side: Side, statsCalls: number): Promise<Sample[]> {
  await side.resume();
  const volumes = [await side.create('crowded-0'), await side.create('crowded-1')];
  const samples = await useVolumes(node, side, volumes, statsCalls);
  for (const volume of volumes) await side.delete(volume);
  await side.pause();
  return samples.map((sample) => ({ ...sample, operation: `${sample.operation}, 200 others` as Operation }));
}

/** Many volumes at once: each client requests the next one as soon as it has its last. */
export async function takeBurst(side: Side): Promise<Sample[]> {
  const clients = Array.from({ length: burstClients }, () => side.another());
  const byAll = async (operation: Operation, work: (client: (typeof clients)[0], i: number) => Promise<unknown>) => {
    const startedMs = performance.now();
    const numbers = Array.from({ length: burstVolumes }, (_, i) => i).values();
    await Promise.all(
      clients.map(async (client) => {
        for (const i of numbers) await work(client, i);
      }),
    );
    return { side: side.name, operation, elapsedMs: performance.now() - startedMs };
  };
  await side.resume();
  const volumes: Volume[] = [];
  const created = await byAll('create 50', async (client, i) => {
    volumes[i] = await side.create(`burst-${i}`, client);
  });
  const deleted = await byAll('delete 50', (client, i) => side.delete(volumes[i] as Volume, client));
  await side.pause();
  for (const client of clients) client[Symbol.dispose]();
  return [created, deleted];
}

async function useVolumes(
  node: ClusterNode,
  { name, stages, nodeSocket }: Side,
  volumes: readonly Volume[],
  statsCalls: number,
): Promise<Sample[]> {
  const request: NodeRequest = { socket: nodeSocket, stages, volumes, statsCalls };
  const words = [process.execPath, 'bench/provision/inside.ts', JSON.stringify(request)];
  const script = `cd ${quote(home)} && exec ${words.map(quote).join(' ')}`;
  const samples = JSON.parse(await node.shell(script, { timeoutMs: insideTimeoutMs })) as NodeSample[];
  return samples.map((sample) => ({ side: name, ...sample }));
}
