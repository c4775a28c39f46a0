import * as v from 'valibot';
import { parse as parseYaml } from 'yaml';
import { messageOf } from '../base/errors.ts';
import { CredentialsUnusable } from './credential-files.ts';

const optionalText = v.optional(v.string());

const cluster = v.object({
  server: v.string(),
  'certificate-authority': optionalText,
  'certificate-authority-data': optionalText,
  'tls-server-name': optionalText,
  'insecure-skip-tls-verify': v.optional(v.boolean()),
  'proxy-url': optionalText,
});

const user = v.object({
  'client-certificate': optionalText,
  'client-certificate-data': optionalText,
  'client-key': optionalText,
  'client-key-data': optionalText,
  token: optionalText,
  tokenFile: optionalText,
  exec: v.optional(
    v.object({
      apiVersion: v.optional(v.string(), 'client.authentication.k8s.io/v1'),
      command: v.string(),
      args: v.optional(v.nullable(v.array(v.string()))),
      env: v.optional(v.nullable(v.array(v.object({ name: v.string(), value: v.string() })))),
      installHint: optionalText,
      provideClusterInfo: v.optional(v.boolean()),
    }),
  ),
  'auth-provider': v.optional(v.unknown()),
  username: optionalText,
  as: optionalText,
  'as-uid': optionalText,
  'as-groups': v.optional(v.nullable(v.array(v.string()))),
  'as-user-extra': v.optional(v.nullable(v.record(v.string(), v.nullable(v.array(v.string()))))),
});

const kubeconfig = v.object({
  'current-context': optionalText,
  contexts: v.optional(
    v.array(
      v.object({
        name: v.string(),
        context: v.object({ cluster: v.string(), user: optionalText, namespace: optionalText }),
      }),
    ),
    [],
  ),
  clusters: v.optional(v.array(v.object({ name: v.string(), cluster })), []),
  users: v.optional(v.array(v.object({ name: v.string(), user: v.optional(user, {}) })), []),
});

type Kubeconfig = v.InferOutput<typeof kubeconfig>;

export interface KubeconfigFile {
  readonly path: string;
  readonly text: string;
}

export interface KubeconfigContext {
  readonly name: string;
  readonly cluster: v.InferOutput<typeof cluster>;
  readonly user: v.InferOutput<typeof user>;
  readonly namespace: string | undefined;
  /** The files that have them: paths in them are relative to the file. */
  readonly clusterFile: string;
  readonly userFile: string;
}

/** The current context of a kubeconfig; throws for settings that a server cannot use. */
export function currentContext(file: KubeconfigFile): KubeconfigContext {
  const context = contextOf([file], '');
  refuse(context, file.path);
  return context;
}

/** A context of several files, of which the first that has a name wins, as in kubectl; the current one if none is named. */
export function contextOf(files: readonly KubeconfigFile[], wanted: string): KubeconfigContext {
  const configs = files.map(({ text, path }) => ({ path, config: parse(text, path) }));
  const paths = files.map(({ path }) => path).join(', ');
  const find = <Item extends { readonly name: string }>(
    section: (config: Kubeconfig) => readonly Item[],
    what: string,
    name: string,
  ) => {
    const items = configs.flatMap(({ config, path }) => section(config).map((item) => ({ item, path })));
    const found = items.find(({ item }) => item.name === name);
    if (found) return found;
    const names = items.map(({ item }) => item.name).join(', ') || 'none';
    throw new CredentialsUnusable(`${paths} has no ${what} named ${name}; there are: ${names}`);
  };

  const name = wanted || configs.map(({ config }) => config['current-context']).find(Boolean);
  if (!name) throw new CredentialsUnusable(`${paths} has no current-context; choose one: kubectl config use-context`);
  const { context } = find(({ contexts }) => contexts, 'context', name).item;
  const cluster = find(({ clusters }) => clusters, 'cluster', context.cluster);
  const user = context.user ? find(({ users }) => users, 'user', context.user) : undefined;
  refuseServer(cluster.item.cluster, cluster.path);
  return {
    name,
    cluster: cluster.item.cluster,
    user: user?.item.user ?? {},
    namespace: context.namespace,
    clusterFile: cluster.path,
    userFile: user?.path ?? cluster.path,
  };
}

export function contextNamesOf(files: readonly KubeconfigFile[]): readonly string[] {
  return files.flatMap(({ text, path }) => parse(text, path).contexts.map(({ name }) => name));
}

function parse(text: string, path: string): Kubeconfig {
  let content: unknown;
  try {
    content = parseYaml(text, { prettyErrors: false }); // pretty errors quote the line, which may contain a secret
  } catch (cause) {
    throw new CredentialsUnusable(`${path} is not YAML: ${messageOf(cause)}`, { cause });
  }
  const result = v.safeParse(kubeconfig, content);
  if (result.success) return result.output;
  const [issue] = result.issues;
  // Not the message: it quotes the value, which may be a secret.
  const field = v.getDotPath(issue) ?? 'it';
  throw new CredentialsUnusable(`${path} is not a valid kubeconfig: ${field} must be of type ${issue.expected}`);
}

function refuseServer(cluster: KubeconfigContext['cluster'], path: string): void {
  const unusable = (what: string, remedy: string) => new CredentialsUnusable(`${path} ${what}; ${remedy}`);
  if (!URL.canParse(cluster.server) || new URL(cluster.server).protocol !== 'https:') {
    throw unusable(`names the server ${cluster.server}`, 'use an https:// address');
  }
  if (cluster['insecure-skip-tls-verify']) {
    // A man in the middle could then read our token and answer in the server's place.
    throw unusable('sets insecure-skip-tls-verify', 'set certificate-authority or tls-server-name instead');
  }
  if (cluster['proxy-url']) throw unusable('sets proxy-url, which is not supported', 'connect without a proxy');
}

function refuse({ user }: KubeconfigContext, path: string): void {
  const unusable = (what: string, remedy: string) => new CredentialsUnusable(`${path} ${what}; ${remedy}`);
  if (user.exec || user['auth-provider']) {
    throw unusable('gets its credentials from a command', 'use a client certificate, token or tokenFile for a server');
  }
  if (user.username) throw unusable('uses a password', 'use a client certificate, token or tokenFile');
}
