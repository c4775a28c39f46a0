import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { after } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { KubeClient } from '../../src/kube/client.ts';
import type { Connection } from '../../src/kube/connection.ts';
import { connectionFromKubeconfig } from '../../src/kube/credentials.ts';
import { namespaces } from '../../src/kube/resource.ts';
import { type Cluster, startCluster } from '../../worlds/cluster/cluster.ts';

const compactionScript = join(import.meta.dirname, 'compact-etcd.ts');

/** What ends with a test, or with the file if it is node:test's own `after`. */
export interface Scope {
  after(end: () => Promise<void> | void): void;
}

/** A real API server, and an administrator's connection to it. */
export interface ApiServer {
  readonly cluster: Cluster;
  readonly connection: Connection;
  readonly admin: KubeClient;
}

/** One for all tests of a file: to be called at its top. */
export async function startApiServer(apiServerFlags: readonly string[] = []): Promise<ApiServer> {
  const cluster = await startCluster({ after }, { nodes: 0, apiServerFlags });
  const connection = await connectionFromKubeconfig(cluster.kubeconfig, systemClock);
  return { cluster, connection, admin: connect({ after }, connection) };
}

export function connect(scope: Scope, connection: Connection, timeoutMs = 20_000): KubeClient {
  const client = new KubeClient({ connection, clock: systemClock, log: silentLog, timeoutMs });
  scope.after(() => client.close());
  return client;
}

/** To the same server, as whoever has the token. */
export async function withToken({ server, credentials }: Connection, token: string): Promise<Connection> {
  const { ca } = (await credentials.read()).tls;
  const its = { tls: ca === undefined ? {} : { ca }, token };
  return { server, credentials: { read: async () => its, refused: () => {} } };
}

export async function newNamespace({ admin }: ApiServer, name: string): Promise<string> {
  await admin.create(namespaces, { metadata: { name } });
  return name;
}

/** Resolves when it serves again. */
export async function restartApiServer({ cluster }: ApiServer): Promise<void> {
  await cluster.apiServer.kill();
  cluster.apiServer.start();
  await cluster.controlPlane.whenReady();
}

/**
 * Makes etcd forget everything that was before now; the API server remembers it in memory until it is restarted.
 * It blocks, so that it can be done at any point of a request, also in a callback.
 */
export function compactEtcd({ cluster }: ApiServer): void {
  const [command, ...args] = [...cluster.namespaces.enter, process.execPath, compactionScript];
  execFileSync(command, args);
}
