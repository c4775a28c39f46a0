import { isDeepStrictEqual } from 'node:util';
import { ApiError } from '../api-error.ts';
import type { DeleteOptions, JsonPatchStep, KubeClient, Patch, Selection } from '../client.ts';
import type { KubeObject, Resource, Stored } from '../resource.ts';
import type { WatchEvent } from '../watch-stream.ts';

type Json = Record<string, unknown>;

/**
 * For tests: an API server for one cluster-scoped resource, with what Moorage relies on: uids, resource versions, times,
 * generations, finalizers, preconditions, watches, and lists by one field. Watches ignore selectors.
 */
export class InMemoryApi<T extends KubeObject> {
  readonly #objects = new Map<string, Stored<T>>();
  readonly #watchers = new Set<(event: WatchEvent<T>) => void>();
  readonly #history: WatchEvent<T>[] = [];
  #revision = 0;
  /** The calls, in order. */
  readonly calls: string[] = [];

  /** For an Informer, or anything else that needs a whole client. */
  get client(): KubeClient {
    return this as unknown as KubeClient;
  }

  async get(_resource: Resource<T>, name: string): Promise<Stored<T> | undefined> {
    this.calls.push(`get ${name}`);
    return this.#objects.get(name);
  }

  async list<P = Stored<T>>(
    _resource: Resource<T>,
    { fieldSelector = '', project }: Selection & { readonly project?: (object: Stored<T>) => P } = {},
  ): Promise<{ items: P[]; resourceVersion: string }> {
    this.calls.push('list');
    const keep = project ?? ((object: Stored<T>) => object as P);
    const items = [...this.#objects.values()].filter((object) => isSelected(object, fieldSelector));
    return { items: items.map(keep), resourceVersion: String(this.#revision) };
  }

  async create(_resource: Resource<T>, object: T): Promise<Stored<T>> {
    const name = object.metadata?.name ?? '';
    this.calls.push(`create ${name}`);
    if (this.#objects.has(name)) throw refusal(`create ${name}`, 409, 'AlreadyExists');
    const stamps = { uid: `uid-${this.#revision + 1}`, generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' };
    const metadata = { ...object.metadata, name, ...stamps };
    return this.#put({ ...object, metadata } as unknown as Stored<T>, 'ADDED');
  }

  async patch(
    _resource: Resource<T>,
    name: string,
    patch: Patch,
    { subresource }: { subresource?: 'status' } = {},
  ): Promise<Stored<T>> {
    this.calls.push(`patch ${name}${subresource ? `/${subresource}` : ''}`);
    const current = this.#objects.get(name);
    if (patch.type === 'apply') return this.#apply(name, patch.body);
    if (!current) throw refusal(`patch ${name}`, 404, 'NotFound');
    const patched =
      patch.type === 'merge' ? merged(current, patch.body, name) : stepped(structuredClone(current), patch.body, name);
    const { deletionTimestamp, finalizers = [], generation = 1 } = patched.metadata;
    if (deletionTimestamp && finalizers.length === 0) return this.#drop(patched);
    const isOtherSpec = !isDeepStrictEqual(specOf(patched), specOf(current));
    const metadata = { ...patched.metadata, generation: isOtherSpec ? generation + 1 : generation };
    return this.#put({ ...patched, metadata }, 'MODIFIED');
  }

  async delete(_resource: Resource<T>, name: string, { preconditions }: DeleteOptions = {}): Promise<boolean> {
    this.calls.push(`delete ${name}`);
    const current = this.#objects.get(name);
    if (!current) return false;
    const { uid, resourceVersion } = { ...current.metadata, ...preconditions };
    if (uid !== current.metadata.uid || resourceVersion !== current.metadata.resourceVersion)
      throw refusal(`delete ${name}`, 409, 'Conflict');
    if (!current.metadata.finalizers?.length) this.#drop(current);
    else if (!current.metadata.deletionTimestamp) {
      const generation = (current.metadata.generation ?? 1) + 1;
      const metadata = { ...current.metadata, deletionTimestamp: '2026-01-01T00:00:00Z', generation };
      this.#put({ ...current, metadata }, 'MODIFIED');
    }
    return true;
  }

  async *watch(_resource: Resource<T>, options: { resourceVersion?: string; signal?: AbortSignal }) {
    const pending: WatchEvent<T>[] = options.resourceVersion
      ? this.#history.slice(Number(options.resourceVersion))
      : [
          ...[...this.#objects.values()].map((object) => ({ type: 'ADDED' as const, object })),
          { type: 'BOOKMARK' as const, resourceVersion: String(this.#revision), initialEventsEnd: true },
        ];
    let wake = Promise.withResolvers<void>();
    const watcher = (event: WatchEvent<T>) => {
      pending.push(event);
      wake.resolve();
    };
    this.#watchers.add(watcher);
    options.signal?.addEventListener('abort', () => wake.resolve());
    try {
      while (!options.signal?.aborted) {
        for (let event = pending.shift(); event; event = pending.shift()) yield event;
        await wake.promise;
        wake = Promise.withResolvers<void>();
      }
    } finally {
      this.#watchers.delete(watcher);
    }
  }

  /** Replaces whole fields, as for fields that are atomic, by one manager; the same values change nothing. */
  async #apply(name: string, fields: object): Promise<Stored<T>> {
    const current = this.#objects.get(name);
    if (!current) return this.create(undefined as unknown as Resource<T>, { metadata: { name }, ...fields } as T);
    const applied = { ...current, ...fields };
    return isDeepStrictEqual(applied, current) ? current : this.#put(applied, 'MODIFIED');
  }

  #put(object: Stored<T>, type: 'ADDED' | 'MODIFIED'): Stored<T> {
    const stored = this.#stamped(object);
    this.#objects.set(stored.metadata.name, stored);
    this.#notify({ type, object: stored });
    return stored;
  }

  #drop(object: Stored<T>): Stored<T> {
    const stored = this.#stamped(object);
    this.#objects.delete(stored.metadata.name);
    this.#notify({ type: 'DELETED', object: stored });
    return stored;
  }

  #stamped(object: Stored<T>): Stored<T> {
    this.#revision += 1;
    return { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#revision) } };
  }

  #notify(event: WatchEvent<T>): void {
    this.#history.push(event);
    for (const watcher of this.#watchers) watcher(event);
  }
}

function specOf(object: KubeObject): unknown {
  return (object as { readonly spec?: unknown }).spec;
}

/** Supports one field, such as `spec.nodeName=a`. */
function isSelected(object: KubeObject, fieldSelector: string): boolean {
  if (fieldSelector === '') return true;
  const [path = '', ...value] = fieldSelector.split('=');
  const field = path.split('.').reduce<unknown>((at, key) => (at as Json | undefined)?.[key], object);
  return (field ?? '') === value.join('=').replaceAll(/\\(.)/g, '$1');
}

function merged<T extends KubeObject>(current: Stored<T>, change: object, name: string): Stored<T> {
  const { uid, resourceVersion } = (change as { metadata?: Json }).metadata ?? {};
  const stale = resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion;
  if (stale || (uid !== undefined && uid !== current.metadata.uid)) throw refusal(`patch ${name}`, 409, 'Conflict');
  return mergePatch(current, change) as Stored<T>;
}

function mergePatch(target: unknown, change: unknown): unknown {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return change;
  const result: Json = { ...(target as Json | undefined) };
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

function stepped<T extends KubeObject>(object: Stored<T>, steps: readonly JsonPatchStep[], name: string): Stored<T> {
  for (const { op, path, value } of steps) {
    const keys = path.split('/').slice(1);
    const last = keys.pop() ?? '';
    const parent = keys.reduce<unknown>((at, key) => (at as Json)[key], object) as Json | unknown[];
    if (op === 'test') {
      if ((parent as Json)[last] !== value) throw refusal(`patch ${name}`, 422, 'Invalid');
    } else if (op === 'add' && !Array.isArray(parent)) {
      parent[last] = value;
    } else if (op === 'remove' && Array.isArray(parent)) {
      parent.splice(Number(last), 1);
    } else {
      throw new Error(`${op} is not supported here`);
    }
  }
  return object;
}

function refusal(request: string, code: number, reason: string): ApiError {
  return new ApiError(request, { code, reason });
}
