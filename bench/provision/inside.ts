/**
 * node bench/provision/inside.ts REQUEST
 *
 * In the machine: calls a node service on its socket like the kubelet, and measures the time. REQUEST is a NodeRequest as
 * JSON; the samples are one JSON array on standard output.
 */
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { RpcClient } from '../../src/rpc/client.ts';
import { Node } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import { filesystem } from './capability.ts';
import type { Volume } from './side.ts';

export interface NodeRequest {
  readonly socket: string;
  readonly stages: boolean;
  readonly volumes: readonly Volume[];
  /** The number of stats calls per volume. */
  readonly statsCalls: number;
}

export interface NodeSample {
  readonly operation: 'first publish' | 're-publish' | 'unpublish' | 'stats';
  readonly elapsedMs: number;
  /** Processes and threads started meanwhile, by any program. */
  readonly started: number;
}

const timeoutMs = 120_000;
const { socket, stages, volumes, statsCalls } = JSON.parse(process.argv[2] ?? '') as NodeRequest;
const client = new RpcClient(Node, socket);
const node = client.methods;
const samples: NodeSample[] = [];

for (let i = 0; i < 50; i++) await node.nodeGetInfo({}, { timeoutMs }); // the first calls of a client are not measured
for (const volume of volumes) {
  const stagingTargetPath = `/run/bench/staging/${volume.id}`;
  const targetPath = `/run/bench/pods/${volume.id}/mount`;
  await mkdir(stagingTargetPath, { recursive: true });
  await mkdir(`/run/bench/pods/${volume.id}`, { recursive: true });
  const request = { volumeId: volume.id, volumeCapability: filesystem, volumeContext: volume.context };
  const publish = async () => {
    if (stages) await node.nodeStageVolume({ ...request, stagingTargetPath }, { timeoutMs });
    const staging = stages ? { stagingTargetPath } : {};
    await node.nodePublishVolume({ ...request, targetPath, ...staging }, { timeoutMs });
  };
  const unpublish = async () => {
    await node.nodeUnpublishVolume({ volumeId: volume.id, targetPath }, { timeoutMs });
    if (stages) await node.nodeUnstageVolume({ volumeId: volume.id, stagingTargetPath }, { timeoutMs });
  };
  const stats = () => node.nodeGetVolumeStats({ volumeId: volume.id, volumePath: targetPath }, { timeoutMs });

  await time('first publish', publish);
  await stats();
  for (let i = 0; i < statsCalls; i++) await time('stats', stats);
  await time('unpublish', unpublish);
  await time('re-publish', publish);
  await time('unpublish', unpublish);
}
client[Symbol.dispose]();
console.log(JSON.stringify(samples));

async function time(operation: NodeSample['operation'], work: () => Promise<unknown>): Promise<void> {
  const before = started();
  const startedMs = performance.now();
  await work();
  const elapsedMs = performance.now() - startedMs;
  samples.push({ operation, elapsedMs, started: started() - before });
}

/** Since the machine booted. */
function started(): number {
  return Number(/^processes (\d+)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1]);
}
