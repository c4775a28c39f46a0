import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { systemClock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { KubeClient } from '../kube/client.ts';
import type { Connection, Credentials } from '../kube/connection.ts';
import { CredentialsUnusable, readCredential } from '../kube/credential-files.ts';
import { connectionInCluster, credentialsOf, serverOf } from '../kube/credentials.ts';
import { contextNamesOf, contextOf, type KubeconfigContext, type KubeconfigFile } from '../kube/kubeconfig.ts';

/** Which cluster, as the user of kubectl means it. */
export interface Target {
  /** Empty for KUBECONFIG, or ~/.kube/config. */
  readonly kubeconfig: string;
  /** Empty for the current context. */
  readonly context: string;
}

export interface Session {
  readonly client: KubeClient;
  /** The namespace of the context. */
  readonly namespace: string;
}

const timeoutMs = 60_000;

/** Runs with the rights of the user; closes the connections afterwards. */
export async function withSession<T>(
  target: Target,
  env: NodeJS.ProcessEnv,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const { connection, namespace } = await connectionOf(target, env);
  const client = new KubeClient({ connection, clock: systemClock, log: noLog, timeoutMs });
  try {
    return await use({ client, namespace });
  } finally {
    await client.close();
  }
}

export async function contextNames({ kubeconfig }: Target, env: NodeJS.ProcessEnv): Promise<readonly string[]> {
  return contextNamesOf(await kubeconfigFiles(kubeconfig || env['KUBECONFIG'] || '', env));
}

async function connectionOf(
  target: Target,
  env: NodeJS.ProcessEnv,
): Promise<{ readonly connection: Connection; readonly namespace: string }> {
  const files = await kubeconfigFiles(target.kubeconfig || env['KUBECONFIG'] || '', env);
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (files.length === 0) {
    if (!host || !port)
      throw new CredentialsUnusable('there is no ~/.kube/config; pass --kubeconfig or set KUBECONFIG');
    return { connection: await connectionInCluster({ host, port }, systemClock), namespace: 'default' };
  }
  const context = contextOf(files, target.context);
  return {
    connection: { server: serverOf(context), credentials: { read: () => credentials(context, env), refused() {} } },
    namespace: context.namespace ?? 'default',
  };
}

/** As kubectl: a list of files may name some that do not exist. */
async function kubeconfigFiles(named: string, env: NodeJS.ProcessEnv): Promise<KubeconfigFile[]> {
  const paths = named ? named.split(delimiter).filter(Boolean) : [join(env['HOME'] || homedir(), '.kube', 'config')];
  const files = await Promise.all(
    paths.map(async (path) => {
      try {
        return [{ path, text: await readCredential(path, 'the kubeconfig') }];
      } catch (error) {
        if (paths.length === 1 && named) throw error;
        return [];
      }
    }),
  );
  return files.flat();
}

const fromCommand = new WeakMap<KubeconfigContext, Promise<Credentials>>();

/** A command is run once: a command line does not live long enough for a second token. */
async function credentials(context: KubeconfigContext, env: NodeJS.ProcessEnv): Promise<Credentials> {
  const { user, userFile } = context;
  if (user['auth-provider']) {
    throw new CredentialsUnusable(
      `${userFile} uses an auth-provider, which is not supported; use exec, as kubectl does`,
    );
  }
  if (!user.exec) return credentialsOf(context);
  const known = fromCommand.get(context) ?? runCommand(context, user.exec, env);
  fromCommand.set(context, known);
  return known;
}

/** https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins */
async function runCommand(
  context: KubeconfigContext,
  exec: NonNullable<KubeconfigContext['user']['exec']>,
  env: NodeJS.ProcessEnv,
): Promise<Credentials> {
  const { tls } = await credentialsOf(context);
  const cluster = {
    server: context.cluster.server,
    ...(tls.ca && { 'certificate-authority-data': Buffer.from(tls.ca).toString('base64') }),
  };
  const info = {
    apiVersion: exec.apiVersion,
    kind: 'ExecCredential',
    spec: { interactive: process.stdin.isTTY, ...(exec.provideClusterInfo && { cluster }) },
  };
  const child = spawn(exec.command, exec.args ?? [], {
    stdio: ['inherit', 'pipe', 'inherit'], // it may ask the user something
    env: {
      ...env,
      ...Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value])),
      KUBERNETES_EXEC_INFO: JSON.stringify(info),
    },
  });
  const exited = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
  const hint = exec.installHint ? `; ${exec.installHint}` : '';
  try {
    const [code, answer] = await Promise.all([exited, text(child.stdout)]);
    if (code !== 0) throw new Error(`it ended with exit code ${code}; see its message above`);
    const { status } = JSON.parse(answer) as { status?: ExecStatus };
    if (!status) throw new Error('its answer has no status');
    const { token, clientCertificateData: cert, clientKeyData: key } = status;
    return { tls: { ...tls, ...(cert && key && { cert, key }) }, ...(token && { token }) };
  } catch (error) {
    throw new CredentialsUnusable(`cannot get credentials from ${exec.command}: ${messageOf(error)}${hint}`);
  }
}

interface ExecStatus {
  readonly token?: string;
  readonly clientCertificateData?: string;
  readonly clientKeyData?: string;
}

/** What goes wrong is reported by the error of the command. */
export const noLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  isLevelEnabled: () => false,
  child: () => noLog,
};
