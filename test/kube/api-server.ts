import { join } from 'node:path';
import { after } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { KubeClient } from '../../src/kube/client.ts';
import type { Connection } from '../../src/kube/connection.ts';
import { connectionFromKubeconfig } from '../../src/kube/credentials.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { type Cluster, startCluster } from '../../worlds/cluster/cluster.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { executeSync } from '../../worlds/host/processes.ts';

const compactionScript = join(import.meta.dirname, 'compact-etcd.ts');

/** Cleans up after a test, or after the file if it is node:test's `after`. */
export interface Scope {
  after(end: () => Promise<void> | void): void;
}

/** A real API server, and an administrator's client. */
export interface ApiServer {
  readonly cluster: Cluster;
  readonly connection: Connection;
  readonly admin: KubeClient;
}

/** Shared by all tests of a file: call it at the top. */
export async function startApiServer(apiServerFlags: readonly string[] = []): Promise<ApiServer> {
  const cluster = await startCluster({ after }, { nodes: 0, apiServerFlags });
  const connection = await connectionFromKubeconfig(cluster.kubeconfig, systemClock);
  return { cluster, connection, admin: connect({ after }, connection) };
}

/** A controller next to the API server, with only the rights of its service account. */
export async function startController(cluster: Cluster, ...flags: readonly string[]): Promise<Component> {
  return startProgram(cluster, 'moorage-controller', [
    ...(await controllerCommand(cluster, 'moorage-controller')),
    `--csi-socket=${join(cluster.dir, 'csi.sock')}`,
    '--metrics-addr=127.0.0.1:8080',
    ...flags,
  ]);
}

/** Another replica, on a host of its own, which is its name; its metrics are on port 8081. */
export async function startStandby(cluster: Cluster, hostname: string): Promise<Component> {
  return startProgram(cluster, hostname, [
    ...['unshare', '--uts', 'sh', '-ec', 'hostname "$0"; exec "$@"', hostname],
    ...(await controllerCommand(cluster, hostname)),
    `--csi-socket=${join(cluster.dir, `${hostname}.sock`)}`,
    '--metrics-addr=127.0.0.1:8081',
  ]);
}

/** `file`: the name of its kubeconfig. */
async function controllerCommand({ controlPlane }: Cluster, file: string): Promise<readonly string[]> {
  const { authority, url } = controlPlane;
  const account = '/O=system:serviceaccounts/CN=system:serviceaccount:moorage-system:moorage-controller';
  const kubeconfig = await authority.kubeconfig(file, account, url);
  return [join(import.meta.dirname, '..', '..', 'bin', 'moorage'), 'controller', `--kubeconfig=${kubeconfig}`];
}

function startProgram(cluster: Cluster, name: string, argv: readonly string[]): Component {
  const program = new Component(cluster.namespaces, join(cluster.dir, 'logs'), name, argv);
  cluster.components.push(program);
  program.start();
  return program;
}

export function connect(scope: Scope, connection: Connection, timeoutMs = 120_000): KubeClient {
  const client = new KubeClient({ connection, clock: systemClock, log: silentLog, timeoutMs });
  scope.after(() => client.close());
  return client;
}

/** A client of the same server, with the token. */
export async function withToken({ server, credentials }: Connection, token: string): Promise<Connection> {
  const { ca } = (await credentials.read()).tls;
  const values = { tls: ca === undefined ? {} : { ca }, token };
  return { server, credentials: { read: async () => values, refused: () => {} } };
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
 * Compacts etcd up to now; the API server still has the history in memory until it is restarted.
 * Synchronous, so that it can run at any point of a request, even in a callback.
 */
export function compactEtcd({ cluster }: ApiServer): void {
  const [command, ...args] = [...cluster.namespaces.enter, process.execPath, compactionScript];
  executeSync(command, args);
}
