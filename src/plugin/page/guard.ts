import { createHash, timingSafeEqual } from 'node:crypto';

/** What decides whether a request is answered. */
export interface Asked {
  readonly method: string | undefined;
  /** As it was sent, without the query. */
  readonly path: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly authorization: string | undefined;
}

export interface Refusal {
  readonly status: 400 | 401 | 403 | 405;
  readonly message: string;
}

/**
 * Only a page that this process served may read the cluster with the rights of its user. A page of another site could reach
 * the port too: it sends its own Origin, or after DNS rebinding its own Host, and it does not know the token, which is in the
 * fragment of the address and so is never sent by a browser itself.
 */
export function refusalOf(asked: Asked, { port, token }: { port: number; token: string }): Refusal | undefined {
  const { method, path, host = '', origin, authorization = '' } = asked;
  if (![`127.0.0.1:${port}`, `localhost:${port}`].includes(host)) {
    return { status: 403, message: `invalid Host: use http://127.0.0.1:${port}` };
  }
  if (origin !== undefined && origin !== `http://${host}`) {
    return { status: 403, message: 'invalid Origin: only this page may read it' };
  }
  if (method !== 'GET') return { status: 405, message: 'it can only be read: use GET' };
  if (!/^\/(?!\/)/.test(path)) return { status: 400, message: 'invalid path: start it with one slash' };
  if (isPublic(path) || isEqual(authorization, `Bearer ${token}`)) return undefined;
  return { status: 401, message: 'invalid token: open the address that kubectl moorage ui has printed' };
}

/** The page itself contains nothing of the cluster. */
function isPublic(path: string): boolean {
  return !path.startsWith('/api/');
}

/** In constant time, whatever the lengths. */
function isEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
