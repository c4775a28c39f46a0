import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Connection, Credentials } from './connection.ts';
import { CredentialsUnusable, FileCredentials, readCredential } from './credential-files.ts';
import { impersonationOf } from './impersonation.ts';
import { currentContext, type KubeconfigContext } from './kubeconfig.ts';

/** What the kubelet provides to a pod. */
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
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    credentials: await FileCredentials.open(() => ofServiceAccount(serviceAccountDir), clock),
  };
}

/** The server stays the one in the file now; credentials are reloaded. */
export async function connectionFromKubeconfig(path: string, clock: Clock): Promise<Connection> {
  const context = async () => currentContext({ path, text: await readCredential(path, 'the kubeconfig') });
  return {
    server: serverOf(await context()),
    credentials: await FileCredentials.open(async () => credentialsOf(await context()), clock),
  };
}

async function ofServiceAccount(dir: string): Promise<Credentials> {
  return {
    tls: { ca: await readCredential(join(dir, 'ca.crt'), 'the cluster CA') },
    token: (await readCredential(join(dir, 'token'), 'the token')).trim(),
  };
}

export function serverOf({ cluster }: KubeconfigContext): string {
  return cluster.server.replace(/\/+$/, '');
}

/** What the files of a context contain; a command that it names is not run. */
export async function credentialsOf(context: KubeconfigContext): Promise<Credentials> {
  const { cluster, user } = context;
  const [ofCluster, ofUser] = [new KubeconfigFiles(context.clusterFile), new KubeconfigFiles(context.userFile)];
  const ca = await ofCluster.inlineOrFile(cluster, 'certificate-authority');
  const cert = await ofUser.inlineOrFile(user, 'client-certificate');
  const key = await ofUser.inlineOrFile(user, 'client-key');
  if ((cert === undefined) !== (key === undefined)) {
    throw new CredentialsUnusable(`${context.userFile} has only one of client-certificate and client-key; set both`);
  }
  const serverName = cluster['tls-server-name'];
  const token = await ofUser.tokenOf(user);
  const impersonation = impersonationOf(context);
  return {
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
      ...(serverName === undefined ? {} : { serverName }),
    },
    ...(token ? { token } : {}),
    ...(impersonation && { impersonation }),
  };
}

/** Values that a kubeconfig has inline, or in files relative to itself. */
class KubeconfigFiles {
  readonly #kubeconfig: string;

  constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  /** A token file takes precedence, as in kubectl. */
  async tokenOf({ tokenFile, token }: KubeconfigContext['user']): Promise<string | undefined> {
    return tokenFile ? (await readCredential(this.#path(tokenFile), 'the token')).trim() : token;
  }

  /** Inline data takes precedence, as in kubectl. */
  async inlineOrFile<Field extends string>(
    section: { readonly [Key in Field | `${Field}-data`]?: string | undefined },
    field: Field,
  ): Promise<string | undefined> {
    const inline = section[`${field}-data`];
    if (inline) return Buffer.from(inline, 'base64').toString('utf8');
    const file = section[field];
    return file ? readCredential(this.#path(file), field) : undefined;
  }

  #path(named: string): string {
    return resolve(dirname(this.#kubeconfig), named);
  }
}
