import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

export type Change<P> =
  | { readonly kind: 'added'; readonly key: string; readonly object: P; readonly previous: undefined }
  | { readonly kind: 'updated'; readonly key: string; readonly object: P; readonly previous: P }
  /** `object` is the last known state. */
  | { readonly kind: 'deleted'; readonly key: string; readonly object: P; readonly previous: P };

export type ChangeHandler<P> = (change: Change<P>) => void;

/** What we keep of one object: its uid, its resourceVersion, and the projection. */
export interface CachedObject<P> {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly object: P;
}

/**
 * The objects that an informer knows, and the listeners for changes. Each change is reported once, when it can be read:
 * the same state seen again is no change, and an object deleted and created again under its name is reported as both.
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

  /** Existing objects are reported as added, at once. Returns a function that unsubscribes. */
  onChange(handler: ChangeHandler<P>): () => void {
    for (const [key, { object }] of this.#entries) {
      this.#call(handler, { kind: 'added', key, object, previous: undefined });
    }
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  /** Calls the listener after each change of one object. The cost does not depend on listeners for other objects. */
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
    this.#notify(key, known, next);
  }

  /** `last` is the state of the object when it was deleted; not given for one that exists but is not kept any more. */
  remove(key: string, uid: string, last?: P): void {
    const known = this.#entries.get(key);
    if (known?.uid !== uid) return; // already gone, or replaced by a new object
    this.#entries.delete(key);
    this.#emit({ kind: 'deleted', key, object: last ?? known.object, previous: known.object });
  }

  /** The complete state of a later moment: an object that is missing was deleted while we did not watch. */
  replace(entries: Map<string, CachedObject<P>>): void {
    const before = this.#entries;
    this.#entries = entries;
    for (const [key, known] of before) {
      if (!entries.has(key)) this.#emit({ kind: 'deleted', key, object: known.object, previous: known.object });
    }
    for (const [key, next] of entries) this.#notify(key, before.get(key), next);
  }

  #notify(key: string, known: CachedObject<P> | undefined, next: CachedObject<P>): void {
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

  /** A bug in one listener must not affect the others. */
  #call(handler: ChangeHandler<P>, change: Change<P>): void {
    try {
      handler(change);
    } catch (error) {
      this.#log.error({ key: change.key, change: change.kind, error: messageOf(error) }, 'a change handler failed');
    }
  }
}
