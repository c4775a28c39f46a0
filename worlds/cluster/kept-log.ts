import type { Pod, Stored } from '../../src/kube/resource.ts';
import { namespace } from '../../test/chart/chart.ts';
import { type LogLine, logLines } from '../host/log-line.ts';
import type { ClusterNode } from './cluster-node.ts';

/** Keeps an agent's log from being deleted with its pod; returns how to read it. */
export async function keepLog(node: ClusterNode, { metadata }: Stored<Pod>): Promise<() => Promise<LogLine[]>> {
  const disk = '/sysdisk'; // the mount of the kubelet's directories, because a hard link works only within one mount
  const kept = `${disk}/${metadata.name}.log`;
  const logs = `${disk}/var/log/pods/${namespace}_${metadata.name}_${metadata.uid}/node`;
  await node.shell(`ln -f ${logs}/$(ls -v ${logs} | tail -1) ${kept}`);
  return async () => logLines(await node.shell(`cat ${kept}`));
}
