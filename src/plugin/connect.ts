import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Clock, systemClock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { KubeClient } from '../kube/client.ts';
import type { Connection, CredentialSource, Credentials } from '../kube/connection.ts';
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
  /** The name of the context. */
  readonly context: string;
}

const timeoutMs = 60_000;

/** Runs with the rights of the user; closes the connections afterwards. */
export async function withSession<T>(
  target: Target,
  env: NodeJS.ProcessEnv,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const { connection, ...context } = await connectionOf(target, env);
  const client = new KubeClient({ connection, clock: systemClock, log: noLog, timeoutMs });
  try {
    return await use({ client, ...context });
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
): Promise<Omit<Session, 'client'> & { readonly connection: Connection }> {
  const files = await kubeconfigFiles(target.kubeconfig || env['KUBECONFIG'] || '', env);
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (files.length === 0) {
    if (!host || !port)
      throw new CredentialsUnusable('there is no ~/.kube/config; pass --kubeconfig or set KUBECONFIG');
    const connection = await connectionInCluster({ host, port }, systemClock);
    return { connection, namespace: 'default', context: 'in-cluster' };
  }
  const context = contextOf(files, target.context);
  return {
    connection: { server: serverOf(context), credentials: credentialsFor(context, env) },
    namespace: context.namespace ?? 'default',
    context: context.name,
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

function credentialsFor(context: KubeconfigContext, env: NodeJS.ProcessEnv): CredentialSource {
  const { user, userFile } = context;
  if (user['auth-provider']) {
    throw new CredentialsUnusable(
      `${userFile} uses an auth-provider, which is not supported; use exec, as kubectl does`,
    );
  }
  const { exec } = user;
  if (!exec) return { read: () => credentialsOf(context), refused() {} };
  return new CommandCredentials(() => runCommand(context, exec, env), systemClock);
}

/** All watches of the page would start a command that fails, each time they retry. */
const retryCommandAfterMs = 30_000;

/** What a command of the kubeconfig answered; it is run again when that has expired or the server refuses it. */
export class CommandCredentials implements CredentialSource {
  readonly #run: () => Promise<CommandAnswer>;
  readonly #clock: Clock;
  #answer: Promise<CommandAnswer> | undefined;
  /** When what is known is no longer used. */
  #untilMs = Number.POSITIVE_INFINITY;

  constructor(run: () => Promise<CommandAnswer>, clock: Clock) {
    this.#run = run;
    this.#clock = clock;
  }

  async read(): Promise<Credentials> {
    if (this.#untilMs <= this.#clock.now()) this.#answer = undefined;
    this.#answer ??= this.#ask();
    return (await this.#answer).credentials;
  }

  /** Not if the server is unreachable: a command may ask the user something. */
  refused(isUnauthorized: boolean): void {
    if (isUnauthorized) this.#answer = undefined;
  }

  async #ask(): Promise<CommandAnswer> {
    this.#untilMs = Number.POSITIVE_INFINITY;
    try {
      const answer = await this.#run();
      this.#untilMs = answer.expiresAtMs;
      return answer;
    } catch (error) {
      this.#untilMs = this.#clock.now() + retryCommandAfterMs;
      throw error;
    }
  }
}

interface CommandAnswer {
  readonly credentials: Credentials;
  readonly expiresAtMs: number;
}

/** https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins */
async function runCommand(
  context: KubeconfigContext,
  exec: NonNullable<KubeconfigContext['user']['exec']>,
  env: NodeJS.ProcessEnv,
): Promise<CommandAnswer> {
  const { tls, impersonation } = await credentialsOf(context);
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
    const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = status;
    return {
      credentials: {
        tls: { ...tls, ...(cert && key && { cert, key }) },
        ...(token && { token }),
        ...(impersonation && { impersonation }),
      },
      expiresAtMs: expirationTimestamp ? Date.parse(expirationTimestamp) : Number.POSITIVE_INFINITY,
    };
  } catch (error) {
    throw new CredentialsUnusable(`cannot get credentials from ${exec.command}: ${messageOf(error)}${hint}`);
  }
}

interface ExecStatus {
  readonly token?: string;
  readonly clientCertificateData?: string;
  readonly clientKeyData?: string;
  readonly expirationTimestamp?: string;
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
