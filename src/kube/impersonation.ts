import { CredentialsUnusable } from './credential-files.ts';
import type { KubeconfigContext } from './kubeconfig.ts';

/** By name, in lower case; each value is a header of its own. */
export type ImpersonationHeaders = Readonly<Record<string, readonly string[]>>;

/**
 * What makes the API server treat requests as those of another user, as kubectl sends it; undefined if nobody is impersonated.
 * https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
 */
export function impersonationOf({ user, userFile }: KubeconfigContext): ImpersonationHeaders | undefined {
  const { as, 'as-uid': uid, 'as-groups': groups, 'as-user-extra': extra } = user;
  const fields = { 'as-uid': uid, 'as-groups': groups?.length, 'as-user-extra': extra && Object.keys(extra).length };
  if (!as) {
    const [field] = Object.entries(fields).find(([, value]) => value) ?? [];
    if (!field) return undefined;
    throw new CredentialsUnusable(`${userFile} sets ${field} without as; set as to the user to impersonate`);
  }
  const headers = new Map<string, string[]>();
  const add = (name: string, values: readonly string[]) => {
    if (values.length > 0) headers.set(name, [...(headers.get(name) ?? []), ...values.map(asBytes)]);
  };
  add('impersonate-user', [as]);
  add('impersonate-uid', uid ? [uid] : []);
  add('impersonate-group', groups ?? []);
  for (const [key, values] of Object.entries(extra ?? {})) add(`impersonate-extra-${escaped(key)}`, values ?? []);
  return Object.fromEntries(headers);
}

/** Percent-encodes each byte that a header's name cannot contain. The server reads the name in lower case. */
function escaped(key: string): string {
  const legal = /[!#$&'*+\-.^_`|~\w]/;
  return [...Buffer.from(key)]
    .map((byte) => String.fromCharCode(byte))
    .map((char) => (legal.test(char) ? char : `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`))
    .join('')
    .toLowerCase();
}

/** As UTF-8, one character per byte: Node sends each character of a header as one byte. */
function asBytes(value: string): string {
  return Buffer.from(value).toString('latin1');
}
