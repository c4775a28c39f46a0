import type { Clock } from '../base/clock.ts';
import { InvalidInput } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { isGone, isNotFound } from './api-error.ts';
import type { Connection } from './connection.ts';
import { apiVersionOf, type KubeObject, pathOf, pods, type Resource, type Stored } from './resource.ts';
import { Transport } from './transport.ts';
import { type WatchEvent, watchEvents } from './watch-stream.ts';

/** Which objects of a resource; by default all of them, in all namespaces. */
export interface Selection {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

/** The namespace of one object, if its resource has namespaces, and the limits of the request. */
export interface Place {
  readonly namespace?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface ListOptions<T extends KubeObject, P> extends Selection {
  readonly pageSize?: number;
  /** What to keep of each object. Applied page by page, so that the whole list is never in memory. */
  readonly project?: ((object: Stored<T>) => P) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface List<P> {
  readonly items: P[];
  /** Where a watch continues. */
  readonly resourceVersion: string;
}

export interface JsonPatchStep {
  readonly op: 'add' | 'remove' | 'replace' | 'test';
  readonly path: string;
  readonly value?: unknown;
}

/** A `metadata.resourceVersion` in a merge patch makes it a compare-and-swap: it fails after another client's write. */
export type Patch =
  | { readonly type: 'merge'; readonly body: object }
  | { readonly type: 'json'; readonly body: readonly JsonPatchStep[] }
  | { readonly type: 'apply'; readonly body: object; readonly fieldManager: string; readonly force?: boolean };

export interface PatchOptions extends Place {
  readonly subresource?: 'status';
  /** The server answers with the changed object and does not store it. */
  readonly dryRun?: boolean;
}

export interface DeleteOptions extends Place {
  /** Delete the object only with this uid and resourceVersion; a conflict otherwise. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly propagationPolicy?: 'Orphan' | 'Background' | 'Foreground';
  readonly gracePeriodSeconds?: number;
}

export interface WatchOptions extends Selection {
  /** Report changes after this version; from the server's current state if not given. */
  readonly resourceVersion?: string | undefined;
  /** Report the current state first, then a bookmark that marks its end, then changes (the server's WatchList). */
  readonly sendInitialEvents?: boolean;
  /** The server ends the watch after this time, so that clients can move to another server. */
  readonly timeoutSeconds?: number;
  /** Silence after which the connection counts as dead; the server sends a bookmark every minute. */
  readonly idleTimeoutMs?: number;
  /** The server has accepted the watch; the first event may be a minute away. */
  readonly onOpen?: (() => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface LogOptions {
  readonly container: string;
  readonly previous?: boolean;
  readonly tailLines: number;
  readonly limitBytes: number;
}

export interface PodPath {
  readonly port: number;
  readonly path: string;
}

export interface KubeClientOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly log: Log;
  /** For each request, including its retries. */
  readonly timeoutMs?: number;
}

const contentTypes = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;

const defaultPageSize = 500;
export const defaultIdleTimeoutMs = 90_000;

/**
 * The verbs of the Kubernetes API, typed by resource. Each request has a deadline. It throws an ApiError if the server
 * refused, ApiUnreachable or ApiTimeout if there was no answer, and the signal's reason if the caller cancelled.
 * It keeps no state about objects: the Informer does.
 */
export class KubeClient {
  readonly #transport: Transport;

  constructor({ connection, clock, log, timeoutMs = 30_000 }: KubeClientOptions) {
    this.#transport = new Transport({ connection, clock, log, timeoutMs });
  }

  async get<T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    { namespace, signal }: Place = {},
  ): Promise<Stored<T> | undefined> {
    try {
      const path = objectPath(resource, name, namespace);
      return (await this.#transport.call({ method: 'GET', path, signal })) as Stored<T>;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** All objects, as they were at one moment, in any number of pages. */
  async list<T extends KubeObject, P = Stored<T>>(
    resource: Resource<T>,
    options: ListOptions<T, P> = {},
  ): Promise<List<P>> {
    try {
      return await this.#listInPages(resource, options, options.pageSize ?? defaultPageSize);
    } catch (error) {
      // The server no longer has the state of the first page: list again as one page, which cannot expire.
      if (isGone(error)) return await this.#listInPages(resource, options, undefined);
      throw error;
    }
  }

  /** Uses the object's namespace. */
  async create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<Stored<T>> {
    const namespace = object.metadata?.namespace;
    requireNamespace(resource, namespace);
    return (await this.#transport.call({
      method: 'POST',
      path: pathOf(resource, namespace),
      body: { ...object, apiVersion: apiVersionOf(resource), kind: resource.kind },
      signal,
    })) as Stored<T>;
  }

  async patch<T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    patch: Patch,
    { namespace, subresource, dryRun, signal }: PatchOptions = {},
  ): Promise<Stored<T>> {
    const path = objectPath(resource, name, namespace);
    const applied = patch.type === 'apply';
    return (await this.#transport.call({
      method: 'PATCH',
      path: subresource ? `${path}/${subresource}` : path,
      query: {
        ...(applied && { fieldManager: patch.fieldManager, force: patch.force ?? false }),
        ...(dryRun && { dryRun: 'All' }),
      },
      body: applied ? named(resource, name, patch.body) : patch.body,
      contentType: contentTypes[patch.type],
      signal,
    })) as Stored<T>;
  }

  /** False if the object does not exist. True means that deletion has started: finalizers may still keep the object. */
  async delete<T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    { namespace, signal, ...options }: DeleteOptions = {},
  ): Promise<boolean> {
    try {
      await this.#transport.call({
        method: 'DELETE',
        path: objectPath(resource, name, namespace),
        body: { apiVersion: 'v1', kind: 'DeleteOptions', ...options },
        signal,
      });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  /**
   * Stops a pod by the Eviction API; only the pod with this uid. A PodDisruptionBudget may refuse it, as may others: an
   * ApiError with status 429.
   */
  async evict(name: string, { namespace, uid, signal }: Place & { readonly uid: string }): Promise<void> {
    const path = `${objectPath(pods, name, namespace)}/eviction`;
    const body = {
      ...{ apiVersion: 'policy/v1', kind: 'Eviction' },
      metadata: { name, namespace },
      deleteOptions: { preconditions: { uid } },
    };
    await this.#transport.call({ method: 'POST', path, body, signal });
  }

  /** The end of the log of a container; of the one before it was restarted, with `previous`. */
  async log(name: string, { namespace, signal, ...query }: Place & LogOptions): Promise<string> {
    const path = `${objectPath(pods, name, namespace)}/log`;
    return this.#transport.text({ method: 'GET', path, query: { ...query }, signal });
  }

  /** What a pod serves on a port, through the API server. */
  async fromPod(name: string, { namespace, port, path, signal }: Place & PodPath): Promise<string> {
    const pod = objectPath(pods, name, namespace);
    return this.#transport.text({ method: 'GET', path: `${pod}:${port}/proxy${path}`, signal });
  }

  /** The events of one connection: it returns when the server ends it, and throws when it breaks. */
  watch<T extends KubeObject>(
    resource: Resource<T>,
    { namespace, idleTimeoutMs = defaultIdleTimeoutMs, onOpen, signal, sendInitialEvents, ...query }: WatchOptions,
  ): AsyncGenerator<WatchEvent<T>, void, void> {
    const path = pathOf(resource, namespace);
    const chunks = this.#transport.stream(
      {
        method: 'GET',
        path,
        query: {
          ...query,
          watch: true,
          allowWatchBookmarks: true,
          ...(sendInitialEvents ? { sendInitialEvents, resourceVersionMatch: 'NotOlderThan' } : {}),
        },
        signal,
      },
      { idleTimeoutMs, onOpen },
    );
    return watchEvents(`the watch of ${path}`, chunks);
  }

  /** Cancels requests in flight and closes all connections. */
  async close(): Promise<void> {
    await this.#transport.close();
  }

  async #listInPages<T extends KubeObject, P>(
    resource: Resource<T>,
    { namespace, labelSelector, fieldSelector, project, signal }: ListOptions<T, P>,
    pageSize: number | undefined,
  ): Promise<List<P>> {
    const keep = project ?? ((object: Stored<T>) => object as P);
    const items: P[] = [];
    let next: string | undefined;
    for (;;) {
      const page = (await this.#transport.call({
        method: 'GET',
        path: pathOf(resource, namespace),
        query: { labelSelector, fieldSelector, limit: pageSize, continue: next },
        signal,
      })) as { items: Stored<T>[] | null; metadata: { resourceVersion: string; continue?: string } };
      for (const item of page.items ?? []) items.push(keep(item));
      next = page.metadata.continue || undefined;
      if (next === undefined) return { items, resourceVersion: page.metadata.resourceVersion };
    }
  }
}

/** Server-side apply requires the full identity in the object too. */
function named(resource: Resource<KubeObject>, name: string, body: KubeObject): KubeObject {
  const metadata = { ...body.metadata, name };
  return { ...body, apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
}

function objectPath(resource: Resource<KubeObject>, name: string, namespace: string | undefined): string {
  requireNamespace(resource, namespace);
  // An empty name would turn a request for one object into one for all of them.
  if (name === '') throw new InvalidInput(`a request for a ${resource.kind} has no name; pass its name`);
  return `${pathOf(resource, namespace)}/${encodeURIComponent(name)}`;
}

function requireNamespace(resource: Resource<KubeObject>, namespace: string | undefined): void {
  if (resource.namespaced && !namespace) {
    throw new InvalidInput(`a request for a ${resource.kind} has no namespace; pass its namespace`);
  }
}
