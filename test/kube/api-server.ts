import { after } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { KubeClient } from '../../src/kube/client.ts';
import type { Connection } from '../../src/kube/connection.ts';
import { connectionFromKubeconfig } from '../../src/kube/credentials.ts';
import { type Cluster, startCluster } from '../worlds/cluster/cluster.ts';

/** A real API server for all tests of a file, and an administrator's connection to it. */
export interface ApiServer {
  readonly cluster: Cluster;
  readonly connection: Connection;
  readonly admin: KubeClient;
}

export async function startApiServer(apiServerFlags: readonly string[] = []): Promise<ApiServer> {
  const cluster = await startCluster({ after }, { nodes: 0, apiServerFlags });
  const connection = await connectionFromKubeconfig(cluster.kubeconfig, systemClock);
  const admin = connect(connection);
  return { cluster, connection, admin };
}

/** Closed when the tests of the file have ended. */
export function connect(connection: Connection, timeoutMs = 10_000): KubeClient {
  const client = new KubeClient({ connection, clock: systemClock, log: silentLog, timeoutMs });
  after(() => client.close());
  return client;
}
