import { useEffect, useState } from 'preact/hooks';

/** Where we are: `/volumes/pvc-1?q=db` is the view `volumes`, the name `pvc-1` and a query. */
export interface Route {
  readonly view: string;
  readonly name: string | undefined;
  readonly query: URLSearchParams;
}

const changed = new EventTarget();
/** A browser takes longer to change its address than the page to search 20,000 volumes. */
const addressDelayMs = 300;
/** A query that is not in the address yet. */
let pending: { readonly search: string; readonly timer: ReturnType<typeof setTimeout> } | undefined;

function currentRoute(): Route {
  const [, view = '', name] = location.pathname.split('/');
  const query = new URLSearchParams(pending?.search ?? location.search);
  return { view, name: name ? decodeURIComponent(name) : undefined, query };
}

function writeAddress(): void {
  if (!pending) return;
  clearTimeout(pending.timer);
  history.replaceState(null, '', location.pathname + pending.search);
  pending = undefined;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const look = () => setRoute(currentRoute());
    changed.addEventListener('change', look);
    const back = () => {
      clearTimeout(pending?.timer);
      pending = undefined;
      look();
    };
    window.addEventListener('popstate', back);
    return () => {
      changed.removeEventListener('change', look);
      window.removeEventListener('popstate', back);
    };
  }, []);
  return route;
}

export function navigate(path: string): void {
  writeAddress(); // so that "back" leads to it
  history.pushState(null, '', path);
  changed.dispatchEvent(new Event('change'));
}

/** Filters are in the address, so that it can be kept, but typing fills no history. */
export function setQuery(change: Readonly<Record<string, string | undefined>>): void {
  const { query } = currentRoute();
  for (const [name, value] of Object.entries(change)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  clearTimeout(pending?.timer);
  pending = { search: text ? `?${text}` : '', timer: setTimeout(writeAddress, addressDelayMs) };
  changed.dispatchEvent(new Event('change'));
}

/** Clicks on links of ours change the view; others, and clicks with a modifier key, do what a browser does. */
export function followLinks(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.target || link.origin !== location.origin || link.hash) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}

export const paths = {
  node: (name: string) => `/nodes/${encodeURIComponent(name)}`,
  volume: (name: string) => `/volumes/${encodeURIComponent(name)}`,
  volumesOf: (filter: Readonly<Record<string, string>>) => `/volumes?${new URLSearchParams(filter)}`,
  evacuation: (node: string) => `/evacuate?${new URLSearchParams({ node })}`,
};
