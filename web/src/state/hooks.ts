import { createContext } from 'preact';
import { useContext, useEffect, useMemo, useState } from 'preact/hooks';
import type { State, Store } from './store.ts';
import { ask } from './stream.ts';

export interface Session {
  readonly store: Store;
  readonly token: string;
}

export const SessionContext = createContext<Session | undefined>(undefined);

function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error('there is no session above this component');
  return session;
}

/** A part of the state; renders again when it is another one. */
export function useStore<T>(select: (state: State) => T): T {
  const { store } = useSession();
  const [selected, setSelected] = useState(() => select(store.state));
  useEffect(() => {
    const look = () => setSelected(() => select(store.state));
    look();
    return store.subscribe(look);
  }, [store]);
  return selected;
}

export type Answer<T> =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'known'; readonly value: T; readonly atMs: number };

/** Asks again when the path or the revision changes, and shows the old answer meanwhile if only the revision did. */
export function useAnswer<T>(path: string | undefined, revision: unknown): Answer<T> {
  const { token } = useSession();
  const [answer, setAnswer] = useState<{ readonly path: string | undefined; readonly answer: Answer<T> }>();
  useEffect(() => {
    if (path === undefined) return;
    const abort = new AbortController();
    ask<T>(path, token, abort.signal).then(
      (value) => setAnswer({ path, answer: { kind: 'known', value, atMs: Date.now() } }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const message = error instanceof Error ? error.message : String(error);
        setAnswer({ path, answer: { kind: 'failed', message } });
      },
    );
    return () => abort.abort();
  }, [path, revision, token]);
  return useMemo(() => (answer?.path === path && answer ? answer.answer : { kind: 'loading' }), [answer, path]);
}

/** The time, for ages: they need not be exact to the second. */
export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** Whether a media query matches, such as the width of a phone. */
export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const look = () => setMatches(media.matches);
    look();
    media.addEventListener('change', look);
    return () => media.removeEventListener('change', look);
  }, [query]);
  return matches;
}
