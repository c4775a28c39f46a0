import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Connection, TokenSource } from './connection.ts';
import { CredentialsUnusable, readCredential } from './credential-file.ts';
import { currentContext, type KubeconfigContext } from './kubeconfig.ts';
import { FileToken, fixedToken } from './token.ts';

/** What the kubelet gives to a pod. */
export interface InCluster {
  /** KUBERNETES_SERVICE_HOST */
  readonly host: string;
  /** KUBERNETES_SERVICE_PORT */
  readonly port: string;
  /** The directory with `token` and `ca.crt`. */
  readonly serviceAccountDir?: string;
}

const defaultServiceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount';

export async function connectionInCluster(place: InCluster, clock: Clock): Promise<Connection> {
  const { host, port, serviceAccountDir = defaultServiceAccountDir } = place;
  const token = new FileToken(join(serviceAccountDir, 'token'), clock);
  await token.read(); // a missing token is told at the start, not at the first request
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    tls: { ca: await readCredential(join(serviceAccountDir, 'ca.crt'), 'the cluster CA') },
    token,
  };
}

export async function connectionFromKubeconfig(path: string, clock: Clock): Promise<Connection> {
  const { cluster, user } = currentContext(await readCredential(path, 'the kubeconfig'), path);
  const files = new KubeconfigFiles(path);
  const ca = await files.inlineOrFile(cluster, 'certificate-authority');
  const cert = await files.inlineOrFile(user, 'client-certificate');
  const key = await files.inlineOrFile(user, 'client-key');
  if ((cert === undefined) !== (key === undefined)) {
    throw new CredentialsUnusable(`${path} has only one of client-certificate and client-key; give both`);
  }
  const serverName = cluster['tls-server-name'];
  const token = await tokenOf(user, files, clock);
  return {
    server: cluster.server.replace(/\/+$/, ''),
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
      ...(serverName === undefined ? {} : { serverName }),
    },
    ...(token === undefined ? {} : { token }),
  };
}

async function tokenOf(
  user: KubeconfigContext['user'],
  files: KubeconfigFiles,
  clock: Clock,
): Promise<TokenSource | undefined> {
  if (user.tokenFile) {
    const token = new FileToken(files.path(user.tokenFile), clock);
    await token.read();
    return token;
  }
  return user.token ? fixedToken(user.token) : undefined;
}

/** Files that a kubeconfig names, relative to itself, or carries within itself. */
class KubeconfigFiles {
  readonly #kubeconfig: string;

  constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  path(named: string): string {
    return resolve(dirname(this.#kubeconfig), named);
  }

  /** What is inline wins, as in kubectl. */
  async inlineOrFile<Field extends string>(
    section: { readonly [Key in Field | `${Field}-data`]?: string | undefined },
    field: Field,
  ): Promise<string | undefined> {
    const inline = section[`${field}-data`];
    if (inline) return Buffer.from(inline, 'base64').toString('utf8');
    const file = section[field];
    return file ? readCredential(this.path(file), field) : undefined;
  }
}
