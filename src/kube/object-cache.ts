import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

export type Change<P> =
  | { readonly kind: 'added'; readonly key: string; readonly object: P; readonly previous: undefined }
  | { readonly kind: 'updated'; readonly key: string; readonly object: P; readonly previous: P }
  /** `object` is the last state that we know of. */
  | { readonly kind: 'deleted'; readonly key: string; readonly object: P; readonly previous: P };

export type ChangeHandler<P> = (change: Change<P>) => void;

/** What we keep of one object: who it is, which state of it, and the projection. */
export interface CachedObject<P> {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly object: P;
}

/**
 * The objects that an informer knows, and who wants to hear of changes. Each change is told once, after it can be read:
 * the same state seen again is no change, and an object that was deleted and made anew under its name is told as both.
 */
export class ObjectCache<P> {
  readonly #log: Log;
  readonly #handlers = new Set<ChangeHandler<P>>();
  readonly #listenersByKey = new Map<string, Set<() => void>>();
  #entries = new Map<string, CachedObject<P>>();

  constructor(log: Log) {
    this.#log = log;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): P | undefined {
    return this.#entries.get(key)?.object;
  }

  list(): P[] {
    return Array.from(this.#entries.values(), (entry) => entry.object);
  }

  /** What is there already is told as added, at once. Returns how to stop. */
  onChange(handler: ChangeHandler<P>): () => void {
    for (const [key, { object }] of this.#entries) {
      this.#call(handler, { kind: 'added', key, object, previous: undefined });
    }
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  /** Wakes the listener after each change of one object; cheap, however many listeners wait for other objects. */
  onChangeOf(key: string, listener: () => void): () => void {
    const listeners = this.#listenersByKey.get(key) ?? new Set();
    this.#listenersByKey.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listenersByKey.get(key) === listeners) this.#listenersByKey.delete(key);
    };
  }

  put(key: string, next: CachedObject<P>): void {
    const known = this.#entries.get(key);
    this.#entries.set(key, next);
    this.#tell(key, known, next);
  }

  /** `last` is the object as it was when it went. */
  remove(key: string, last: CachedObject<P>): void {
    const known = this.#entries.get(key);
    if (known?.uid !== last.uid) return; // gone already, or its successor is here
    this.#entries.delete(key);
    this.#emit({ kind: 'deleted', key, object: last.object, previous: known.object });
  }

  /** The whole truth of a later moment: what is not in it was deleted while nobody told us. */
  replace(entries: Map<string, CachedObject<P>>): void {
    const before = this.#entries;
    this.#entries = entries;
    for (const [key, known] of before) {
      if (!entries.has(key)) this.#emit({ kind: 'deleted', key, object: known.object, previous: known.object });
    }
    for (const [key, next] of entries) this.#tell(key, before.get(key), next);
  }

  #tell(key: string, known: CachedObject<P> | undefined, next: CachedObject<P>): void {
    const { object } = next;
    if (known?.uid === next.uid) {
      if (known.resourceVersion !== next.resourceVersion) {
        this.#emit({ kind: 'updated', key, object, previous: known.object });
      }
      return;
    }
    if (known) this.#emit({ kind: 'deleted', key, object: known.object, previous: known.object });
    this.#emit({ kind: 'added', key, object, previous: undefined });
  }

  #emit(change: Change<P>): void {
    for (const handler of this.#handlers) this.#call(handler, change);
    for (const listener of this.#listenersByKey.get(change.key) ?? []) this.#call(listener, change);
  }

  /** One listener's bug must not cost the others their news. */
  #call(handler: ChangeHandler<P>, change: Change<P>): void {
    try {
      handler(change);
    } catch (error) {
      this.#log.error({ key: change.key, change: change.kind, error: messageOf(error) }, 'a change handler failed');
    }
  }
}
