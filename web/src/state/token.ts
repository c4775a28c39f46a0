const key = 'moorage-token';

/**
 * The token is in the fragment of the address that `kubectl moorage ui` prints. It is taken out of the address, so that an
 * address copied from the browser is harmless, and kept for this tab only.
 */
export function takeToken(): string | undefined {
  const [, token] = /^#token=([\w-]+)$/.exec(location.hash) ?? [];
  if (token) {
    sessionStorage.setItem(key, token);
    history.replaceState(null, '', location.pathname + location.search);
  }
  return sessionStorage.getItem(key) ?? undefined;
}
