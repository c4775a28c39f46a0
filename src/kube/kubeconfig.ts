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
  exec: v.optional(v.unknown()),
  'auth-provider': v.optional(v.unknown()),
  username: optionalText,
});

const kubeconfig = v.object({
  'current-context': optionalText,
  contexts: v.optional(
    v.array(v.object({ name: v.string(), context: v.object({ cluster: v.string(), user: optionalText }) })),
    [],
  ),
  clusters: v.optional(v.array(v.object({ name: v.string(), cluster })), []),
  users: v.optional(v.array(v.object({ name: v.string(), user: v.optional(user, {}) })), []),
});

export interface KubeconfigContext {
  readonly cluster: v.InferOutput<typeof cluster>;
  readonly user: v.InferOutput<typeof user>;
}

/** The current context of a kubeconfig; throws for unsupported or insecure settings. `path` is for the messages. */
export function currentContext(text: string, path: string): KubeconfigContext {
  const config = parse(text, path);
  const name = config['current-context'];
  if (!name) throw new CredentialsUnusable(`${path} has no current-context; choose one: kubectl config use-context`);
  const { context } = required(config.contexts, 'context', name, path);
  const { cluster } = required(config.clusters, 'cluster', context.cluster, path);
  const user = context.user ? required(config.users, 'user', context.user, path).user : {};
  refuse(cluster, user, path);
  return { cluster, user };
}

function parse(text: string, path: string): v.InferOutput<typeof kubeconfig> {
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

function required<Item extends { readonly name: string }>(
  items: readonly Item[],
  what: string,
  name: string,
  path: string,
): Item {
  const found = items.find((item) => item.name === name);
  if (found) return found;
  const names = items.map((item) => item.name).join(', ') || 'none';
  throw new CredentialsUnusable(`${path} has no ${what} named ${name}; there are: ${names}`);
}

function refuse(cluster: KubeconfigContext['cluster'], user: KubeconfigContext['user'], path: string): void {
  const unusable = (what: string, remedy: string) => new CredentialsUnusable(`${path} ${what}; ${remedy}`);
  if (!URL.canParse(cluster.server) || new URL(cluster.server).protocol !== 'https:') {
    throw unusable(`names the server ${cluster.server}`, 'use an https:// address');
  }
  if (cluster['insecure-skip-tls-verify']) {
    // A man in the middle could then read our token and answer in the server's place.
    throw unusable('sets insecure-skip-tls-verify', 'set certificate-authority or tls-server-name instead');
  }
  if (cluster['proxy-url']) throw unusable('sets proxy-url, which is not supported', 'connect without a proxy');
  if (user.exec || user['auth-provider']) {
    throw unusable('gets its credentials from a command', 'use a client certificate, token or tokenFile for a server');
  }
  if (user.username) throw unusable('uses a password', 'use a client certificate, token or tokenFile');
}
