import type { Cluster } from '../../worlds/cluster/cluster.ts';

/** Requests to the API server since its start, for LogicalVolumes and Nodes, without watches. */
export interface ApiRequests {
  readonly requests: number;
  readonly writes: number;
}

/** Counted by the server. */
export async function apiRequests(cluster: Cluster): Promise<ApiRequests> {
  const metrics = await cluster.kubectl('get', '--raw', '/metrics');
  let requests = 0;
  let writes = 0;
  for (const line of metrics.split('\n')) {
    if (!/^apiserver_request_total{.*resource="(logicalvolumes|nodes)"/.test(line)) continue;
    const verb = /verb="(\w+)"/.exec(line)?.[1] ?? '';
    const count = Number(line.slice(line.lastIndexOf(' ')));
    if (verb === 'WATCH' || verb === 'LIST') continue;
    requests += count;
    if (verb !== 'GET') writes += count;
  }
  return { requests, writes };
}

/** Per volume. */
export function perVolume(before: ApiRequests, after: ApiRequests, volumes: number): ApiRequests {
  return { requests: (after.requests - before.requests) / volumes, writes: (after.writes - before.writes) / volumes };
}
