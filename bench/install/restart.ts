import { pods } from '../../src/kube/resource.ts';
import { namespace } from '../../test/chart/chart.ts';
import type { Cluster } from '../../test/worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../test/worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../test/worlds/cluster/moorage.ts';
import { eventually } from '../../test/worlds/host/eventually.ts';

/** How an agent came back, in milliseconds since its predecessor was ended or asked to end. */
export interface Restart {
  /** The kubelet and containerd have started its process. */
  readonly processMs: number;
  /** It answers on its socket. */
  readonly servingMs: number;
  /** The kubelet has asked it who it is, and knows it again. */
  readonly registeredMs: number;
}

interface LogLine {
  readonly time: string;
  readonly msg: string;
  readonly socket?: string;
}

/** As the kernel does when memory is short. */
export async function afterKill(cluster: Cluster, moorage: Moorage, node: ClusterNode): Promise<Restart> {
  const begun = await now(node);
  await moorage.killAgent(node);
  return comeback(cluster, moorage, node, begun);
}

/** As an upgrade does. */
export async function afterReplacement(cluster: Cluster, moorage: Moorage, node: ClusterNode): Promise<Restart> {
  const { metadata } = await moorage.agentOn(node);
  const begun = await now(node);
  await cluster.kube.delete(pods, metadata.name, { namespace });
  return comeback(cluster, moorage, node, begun);
}

async function comeback(cluster: Cluster, moorage: Moorage, node: ClusterNode, begun: number): Promise<Restart> {
  const lines = await eventually(`an agent of ${node.name} is registered anew`, async () => {
    const { metadata } = await moorage.agentOn(node);
    const log = await cluster.kubectl('-n', namespace, 'logs', metadata.name);
    const said = log
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as LogLine);
    return said.some((line) => isRegistration(line) && timeOf(line) > begun) && said;
  });
  const since = (isIt: (line: LogLine) => boolean) => timeOf(lines.find(isIt)) - begun;
  return {
    processMs: (await processStart(node)) - begun,
    servingMs: since(({ socket }) => socket?.endsWith('/csi-topolvm.sock') ?? false),
    registeredMs: since(isRegistration),
  };
}

function isRegistration({ msg }: LogLine): boolean {
  return msg === 'registered with the kubelet';
}

function timeOf(line: LogLine | undefined): number {
  return line ? Date.parse(line.time) : Number.NaN;
}

/** By the clock of the node, as all other times. */
async function now(node: ClusterNode): Promise<number> {
  return Number(await node.shell('date +%s%3N'));
}

async function processStart(node: ClusterNode): Promise<number> {
  const [nowMs = 0, uptimeSeconds = 0, ticks = 0] = (
    await node.shell(`
      agent=$(pgrep -f '[m]oorage.mjs node ')
      echo $(date +%s%3N) $(cut -d' ' -f1 /proc/uptime) $(cut -d')' -f2 /proc/$agent/stat | cut -d' ' -f21)`)
  )
    .split(' ')
    .map(Number);
  return Math.round(nowMs - uptimeSeconds * 1000 + ticks * 10);
}
