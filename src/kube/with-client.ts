import type { Clock } from '../base/clock.ts';
import { InvalidInput } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { KubeClient } from './client.ts';
import type { Connection } from './connection.ts';
import { connectionFromKubeconfig, connectionInCluster } from './credentials.ts';

export interface ClientOptions {
  /** Empty in a cluster, where the pod's environment has the address of the API server. */
  readonly kubeconfigFile: string;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** Creates a client, passes it on, and closes it afterwards. */
export async function withClient(options: ClientOptions, use: (client: KubeClient) => Promise<void>): Promise<void> {
  const { clock, log } = options;
  const client = new KubeClient({ connection: await connect(options), clock, log });
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

async function connect({ kubeconfigFile, env, clock }: ClientOptions): Promise<Connection> {
  if (kubeconfigFile) return connectionFromKubeconfig(kubeconfigFile, clock);
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (!host || !port) {
    throw new InvalidInput('not running in a cluster; pass --kubeconfig');
  }
  return connectionInCluster({ host, port }, clock);
}
