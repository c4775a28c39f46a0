import { abortable } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { MoorageError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { defaultIdleTimeoutMs, type KubeClient, type Selection } from './client.ts';
import { type ChangeHandler, ObjectCache } from './object-cache.ts';
import { Reflector } from './reflector.ts';
import { type KubeObject, pathOf, type Resource, type Stored } from './resource.ts';

export interface InformerOptions<T extends KubeObject, P> extends Selection {
  readonly client: KubeClient;
  readonly resource: Resource<T>;
  /** What to keep of each object; by default everything but its managedFields. Nothing is kept of one without a result. */
  readonly project?: (object: Stored<T>) => P | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Silence of the server, without even a bookmark, after which we reconnect. */
  readonly idleTimeoutMs?: number;
  /** Called with the error when the watch breaks, and without one when the server accepts it again. */
  readonly onFailure?: (error: unknown) => void;
}

export class InformerStopped extends MoorageError {
  readonly code = 'Unavailable';
}

/**
 * An in-memory copy of the objects of one resource, with a notification of each change.
 *
 * It is always slightly behind the server, by seconds after a lost connection. It never changes an object, and callers
 * must not change the objects they receive.
 */
export class Informer<T extends KubeObject, P = Stored<T>> {
  readonly #cache: ObjectCache<P>;
  readonly #reflector: Reflector<T, P>;
  readonly #path: string;
  readonly #abort = new AbortController();
  readonly #firstSync = Promise.withResolvers<void>();
  #synced = false;
  #running: Promise<void> | undefined;

  constructor({
    client,
    resource,
    project,
    clock,
    log,
    idleTimeoutMs,
    onFailure,
    ...selection
  }: InformerOptions<T, P>) {
    this.#path = pathOf(resource, selection.namespace);
    const watchLog = log.child({ watch: this.#path });
    this.#cache = new ObjectCache(watchLog);
    this.#reflector = new Reflector({
      client,
      resource,
      selection,
      project: project ?? ((object) => withoutManagedFields(object) as P),
      cache: this.#cache,
      onSync: () => {
        this.#synced = true;
        this.#firstSync.resolve();
      },
      onFailure,
      clock,
      log: watchLog,
      idleTimeoutMs: idleTimeoutMs ?? defaultIdleTimeoutMs,
    });
    this.#firstSync.promise.catch(() => {}); // if stopped before the first sync, those who wait for it get the error
  }

  start(): void {
    this.#running ??= this.#reflector.run(this.#abort.signal);
  }

  /** Ends the watch and fails those who wait for it. The cache keeps its content. */
  async stop(): Promise<void> {
    const stopped = new InformerStopped(`the watch of ${this.#path} has stopped with its process; retry`);
    this.#abort.abort(stopped);
    this.#firstSync.reject(stopped);
    await this.#running;
  }

  /** Resolves when the cache has held the complete state for the first time. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await abortable(this.#firstSync.promise, signal);
  }

  /** `key` is `namespace/name`, or `name` for cluster-scoped resources. */
  get(key: string): P | undefined {
    return this.#cache.get(key);
  }

  list(): P[] {
    return this.#cache.list();
  }

  /** Existing objects are reported as added, at once. Returns a function that unsubscribes. */
  onChange(handler: ChangeHandler<P>): () => void {
    return this.#cache.onChange(handler);
  }

  /**
   * Waits until the object (undefined if there is none) is as wanted: checks the cache now and after each change. As the
   * cache is behind the server, an object created a moment ago may still be undefined.
   */
  async until(key: string, predicate: (object: P | undefined) => boolean, signal: AbortSignal): Promise<P | undefined> {
    await this.whenSynced(signal);
    const { promise, resolve, reject } = Promise.withResolvers<P | undefined>();
    const look = () => {
      try {
        const object = this.#cache.get(key);
        if (predicate(object)) resolve(object);
      } catch (error) {
        reject(error);
      }
    };
    const stopLooking = this.#cache.onChangeOf(key, look);
    look();
    try {
      return await abortable(abortable(promise, signal), this.#abort.signal);
    } finally {
      stopLooking();
    }
  }

  get synced(): boolean {
    return this.#synced;
  }

  get size(): number {
    return this.#cache.size;
  }

  get lastEventAtMs(): number | undefined {
    return this.#reflector.lastEventAtMs;
  }

  get relists(): number {
    return this.#reflector.relists;
  }

  get reconnects(): number {
    return this.#reflector.reconnects;
  }
}

/** Which manager set which field: often half of an object, and not used here. */
export function withoutManagedFields<T extends KubeObject>(object: Stored<T>): Stored<T> {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}
