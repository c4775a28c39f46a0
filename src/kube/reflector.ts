import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { ApiError, isGone } from './api-error.ts';
import { Backoff } from './backoff.ts';
import type { KubeClient, Selection } from './client.ts';
import type { CachedObject, ObjectCache } from './object-cache.ts';
import { type KubeObject, keyOf, type Resource, type Stored } from './resource.ts';
import { StreamSilent } from './transport.ts';
import type { WatchEvent } from './watch-stream.ts';

export interface ReflectorOptions<T extends KubeObject, P> {
  readonly client: KubeClient;
  readonly resource: Resource<T>;
  readonly selection: Selection;
  /** Undefined for an object that is not kept. */
  readonly project: (object: Stored<T>) => P | undefined;
  readonly cache: ObjectCache<P>;
  /** Called each time the cache holds the complete state. */
  readonly onSync: () => void;
  /** Called with the error when the watch breaks, and without one when the server accepts it again. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly idleTimeoutMs: number;
}

/** The server ends each watch after five to ten minutes, so that clients spread over its replicas again. */
const shortestWatchSeconds = 300;
/** After this many silent connections in a row we no longer trust our position and read everything again. */
const silencesBeforeRelist = 2;

/**
 * Keeps a cache in sync with the API server.
 *
 * It reads the current state once (streamed if the server can, otherwise listed) and then watches, from one
 * resourceVersion to the next. A connection that ends or breaks is resumed from the last resourceVersion seen, including
 * bookmarks, so nothing is reported twice. If the server no longer has that version (410 Gone), or stays silent on several
 * connections in a row (as for a position from before an etcd restore), everything is read again and compared with the
 * cache: that finds missed deletions.
 */
export class Reflector<T extends KubeObject, P> {
  readonly #options: ReflectorOptions<T, P>;
  readonly #backoff = new Backoff({ firstMs: 200, longestMs: 15_000, random: Math.random });

  /** The last resourceVersion seen; undefined when the complete state must be read. */
  #position: string | undefined;
  #serverStreamsState = true;
  #silences = 0;

  #connections = 0;
  #syncs = 0;
  #lastEventAtMs: number | undefined;

  constructor(options: ReflectorOptions<T, P>) {
    this.#options = options;
  }

  get lastEventAtMs(): number | undefined {
    return this.#lastEventAtMs;
  }

  /** How often the complete state was read again, after the first time. */
  get relists(): number {
    return Math.max(0, this.#syncs - 1);
  }

  get reconnects(): number {
    return Math.max(0, this.#connections - 1);
  }

  /** Runs until the signal aborts; never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    while (!signal.aborted) {
      try {
        await this.#watchOnce(signal);
        log.debug({ resourceVersion: this.#position }, 'the server ended the watch; resuming');
      } catch (error) {
        if (signal.aborted) return;
        this.#learnFrom(error);
      }
      await pause(clock, this.#backoff.nextDelayMs(), signal).catch(() => {}); // only the signal can reject it
    }
  }

  /** One connection to its end, from the current position or from the complete state. */
  async #watchOnce(signal: AbortSignal): Promise<void> {
    const { client, resource, selection, clock, idleTimeoutMs, onFailure } = this.#options;
    this.#connections += 1;
    if (this.#position === undefined && !this.#serverStreamsState) await this.#list(signal);

    let state = this.#position === undefined ? new Map<string, CachedObject<P>>() : undefined;
    const events = client.watch(resource, {
      ...selection,
      ...(state ? { sendInitialEvents: true } : { resourceVersion: this.#position }),
      timeoutSeconds: Math.round(shortestWatchSeconds * (1 + Math.random())),
      idleTimeoutMs,
      onOpen: () => onFailure?.(undefined),
      signal,
    });
    for await (const event of events) {
      this.#lastEventAtMs = clock.monotonic();
      this.#silences = 0;
      if (!state) {
        this.#follow(event);
        this.#backoff.reset(); // not while reading the state: a server that fails there must not be retried at once
      } else if (event.type === 'BOOKMARK') {
        if (!event.initialEventsEnd) continue;
        this.#adopt(state, event.resourceVersion);
        state = undefined;
      } else {
        const kept = event.type === 'DELETED' ? undefined : this.#kept(event.object);
        if (kept) state.set(keyOf(event.object), kept);
        else state.delete(keyOf(event.object));
      }
    }
  }

  #follow(event: WatchEvent<T>): void {
    const { cache } = this.#options;
    if (event.type === 'BOOKMARK') {
      this.#position = event.resourceVersion;
      return;
    }
    const key = keyOf(event.object);
    const kept = this.#kept(event.object);
    if (event.type === 'DELETED' || !kept) cache.remove(key, event.object.metadata.uid, kept?.object);
    else cache.put(key, kept);
    this.#position = event.object.metadata.resourceVersion;
  }

  /** For servers that cannot stream their state: page by page. */
  async #list(signal: AbortSignal): Promise<void> {
    const { client, resource, selection } = this.#options;
    const { items, resourceVersion } = await client.list(resource, {
      ...selection,
      project: (object): [string, CachedObject<P>][] => {
        const kept = this.#kept(object);
        return kept ? [[keyOf(object), kept]] : [];
      },
      signal,
    });
    this.#adopt(new Map(items.flat()), resourceVersion);
  }

  #adopt(state: Map<string, CachedObject<P>>, resourceVersion: string): void {
    this.#position = resourceVersion;
    this.#syncs += 1;
    this.#options.cache.replace(state);
    this.#options.onSync();
  }

  #kept(object: Stored<T>): CachedObject<P> | undefined {
    const { uid, resourceVersion } = object.metadata;
    const projected = this.#options.project(object);
    return projected === undefined ? undefined : { uid, resourceVersion, object: projected };
  }

  #learnFrom(error: unknown): void {
    const { log, onFailure } = this.#options;
    const readingState = this.#position === undefined;
    if (isGone(error)) {
      this.#position = undefined;
      log.info({ error: messageOf(error) }, 'the server no longer has our resourceVersion; reading everything again');
      return;
    }
    if (error instanceof StreamSilent) {
      this.#silences += 1;
      if (this.#silences >= silencesBeforeRelist) this.#position = undefined;
    }
    const cannotStream = error instanceof StreamSilent || (error instanceof ApiError && error.isInvalid);
    if (readingState && this.#serverStreamsState && cannotStream) {
      this.#serverStreamsState = false; // refused or ignored: a list works in both cases
      log.info({ error: messageOf(error) }, 'the server does not stream its current state; listing instead');
      return;
    }
    onFailure?.(error);
    log.warn({ error: messageOf(error) }, 'the watch broke; reconnecting');
  }
}
