import { pods } from '../../src/kube/resource.ts';
import { namespace } from '../../test/chart/chart.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';

/** The memory of the processes of a container, in MiB. */
export interface ContainerMemory {
  readonly component: string;
  readonly container: string;
  readonly rssMib: number;
  readonly pssMib: number;
}

/** For all pods of the chart, which are on one node. */
export async function podMemory(cluster: Cluster, node: ClusterNode): Promise<readonly ContainerMemory[]> {
  const { items } = await cluster.kube.list(pods, { namespace, labelSelector: 'app.kubernetes.io/name=moorage' });
  const found: ContainerMemory[] = [];
  for (const { metadata, status } of items) {
    for (const { name, containerID = '' } of status?.containerStatuses ?? []) {
      const group = `$(find /sys/fs/cgroup -type d -name '${containerID.replace(/^.*\//, '')}')`;
      const listing = await node.shell(`for pid in $(cat ${group}/cgroup.procs); do cat /proc/$pid/smaps_rollup; done`);
      const component = metadata.labels?.['app.kubernetes.io/component'] ?? '';
      found.push({ component, container: name, rssMib: sum(listing, 'Rss'), pssMib: sum(listing, 'Pss') });
    }
  }
  return found;
}

function sum(listing: string, field: string): number {
  const values = [...listing.matchAll(new RegExp(`^${field}: +(\\d+) kB$`, 'gm'))];
  return Math.round(values.reduce((kib, [, value]) => kib + Number(value), 0) / 102.4) / 10;
}
