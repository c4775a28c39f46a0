import { pods } from '../../src/kube/resource.ts';
import { namespace } from '../../test/chart/chart.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { keepLog } from '../../worlds/cluster/kept-log.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { isReady } from '../../worlds/cluster/ready.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { type LogLine, logLines } from '../../worlds/host/log-line.ts';

/** How an agent came back, in milliseconds since its predecessor was killed or told to stop. */
export interface Restart {
  /** The kubelet and containerd have started its process. */
  readonly processMs: number;
  /** It serves its socket. */
  readonly servingMs: number;
  /** The kubelet has registered it again. */
  readonly registeredMs: number;
}

/** Like the kernel when memory runs out. */
export async function afterKill(moorage: Moorage, node: ClusterNode): Promise<Restart> {
  const begun = await now(node);
  await moorage.killAgent(node);
  const next = await registeredSince(begun, moorage, node);
  return { processMs: (await processStart(node)) - begun, ...timesAfterRestart(next, begun) };
}

/** Like `kubectl delete` and `kubectl drain`: the next agent starts when the pod is gone. */
export async function afterDeletion(cluster: Cluster, moorage: Moorage, node: ClusterNode): Promise<Restart> {
  const { metadata } = await moorage.agentOn(node);
  const begun = await now(node);
  await cluster.kube.delete(pods, metadata.name, { namespace });
  const next = await registeredSince(begun, moorage, node);
  return { processMs: (await processStart(node)) - begun, ...timesAfterRestart(next, begun) };
}

/** Like an upgrade: the next agent already runs as a standby when its predecessor is told to stop. */
export async function afterUpgrade(cluster: Cluster, moorage: Moorage, node: ClusterNode): Promise<Restart> {
  const predecessor = await moorage.agentOn(node);
  const logOfPredecessor = await keepLog(node, predecessor);
  const begun = await now(node);
  await cluster.kubectl('-n', namespace, 'rollout', 'restart', 'daemonset/moorage-node');
  await eventually(`${predecessor.metadata.name} is gone`, async () => {
    return (await cluster.kube.get(pods, predecessor.metadata.name, { namespace })) === undefined;
  });
  const next = await registeredSince(begun, moorage, node);
  const stopping = (await logOfPredecessor()).findLast(({ msg }) => msg === 'stopping');
  return { processMs: 0, ...timesAfterRestart(next, timeOf(stopping)) };
}

/** The log of an agent that the kubelet has registered since then. The node is not queried until that is likely. */
async function registeredSince(begun: number, moorage: Moorage, node: ClusterNode): Promise<readonly LogLine[]> {
  return eventually(`an agent of ${node.name} is registered again`, async () => {
    const agent = await moorage.agentOn(node);
    if (!isReady(agent)) return false;
    const said = logLines(await moorage.log(agent));
    return said.some((line) => isRegistration(line) && timeOf(line) > begun) && said;
  });
}

function timesAfterRestart(lines: readonly LogLine[], begun: number): Omit<Restart, 'processMs'> {
  const since = (isIt: (line: LogLine) => boolean) => timeOf(lines.find(isIt)) - begun;
  return {
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

/** By the node's clock, like all other times. */
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
