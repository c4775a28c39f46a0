import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Connection } from '../../src/kube/connection.ts';
import { type KubeObject, keyOf, pathOf, type Resource, type Stored } from '../../src/kube/resource.ts';

interface Collection {
  readonly objects: Map<string, Stored<KubeObject>>;
  readonly watchers: Set<ServerResponse>;
}

/**
 * An API server that only reads from memory: lists, single objects, and watches with their initial state. For clusters of a
 * size that a real API server would need minutes to create. A path that it has no object of is an empty collection.
 */
export class MemoryApi {
  readonly #collections = new Map<string, Collection>();
  readonly #refusals = new Map<string, { readonly code: number; readonly message: string }>();
  readonly #server: Server;
  #revision = 0;

  constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  async listen(): Promise<Connection> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = this.#server.address() as AddressInfo;
    return { server: `http://127.0.0.1:${port}`, credentials: { read: async () => ({ tls: {} }), refused() {} } };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Adds or replaces an object. */
  put<T extends KubeObject>(resource: Resource<T>, object: T): void {
    this.#revision += 1;
    const { objects, watchers } = this.#collection(pathOf(resource));
    const key = keyOf(object);
    const stamps = {
      ...{ name: '', uid: `${resource.plural}-${key}`, creationTimestamp: new Date().toISOString() },
      ...object.metadata,
      resourceVersion: String(this.#revision),
    };
    const stored = { ...object, metadata: stamps };
    const type = objects.has(key) ? 'MODIFIED' : 'ADDED';
    objects.set(key, stored);
    for (const watcher of watchers) watcher.write(lineOf(type, stored));
  }

  remove<T extends KubeObject>(resource: Resource<T>, key: string): void {
    this.#revision += 1;
    const { objects, watchers } = this.#collection(pathOf(resource));
    const object = objects.get(key);
    if (!object) return;
    objects.delete(key);
    const metadata = { ...object.metadata, resourceVersion: String(this.#revision) };
    for (const watcher of watchers) watcher.write(lineOf('DELETED', { ...object, metadata }));
  }

  /** From now on, or no longer if there is no code. */
  refuse<T extends KubeObject>(resource: Resource<T>, code: number | undefined, message = ''): void {
    if (code === undefined) this.#refusals.delete(pathOf(resource));
    else this.#refusals.set(pathOf(resource), { code, message });
  }

  #collection(path: string): Collection {
    const known = this.#collections.get(path) ?? { objects: new Map(), watchers: new Set() };
    this.#collections.set(path, known);
    return known;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://api');
    const [, root = '', namespace, plural = '', name] =
      /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?$/.exec(pathname) ?? [];
    const { objects, watchers } = this.#collection(`${root}/${plural}`);
    response.setHeader('content-type', 'application/json');
    const refusal = this.#refusals.get(`${root}/${plural}`);
    if (refusal) return void response.writeHead(refusal.code).end(JSON.stringify({ kind: 'Status', ...refusal }));
    if (name) {
      const object = objects.get(namespace ? `${namespace}/${name}` : name);
      const missing = { kind: 'Status', code: 404, reason: 'NotFound', message: `no ${plural} ${name}` };
      return void response.writeHead(object ? 200 : 404).end(JSON.stringify(object ?? missing));
    }
    if (searchParams.get('watch')) {
      response.flushHeaders();
      for (const object of objects.values()) response.write(lineOf('ADDED', object));
      const annotations = { 'k8s.io/initial-events-end': 'true' };
      response.write(lineOf('BOOKMARK', { metadata: { resourceVersion: String(this.#revision), annotations } }));
      watchers.add(response);
      response.once('close', () => watchers.delete(response));
      return;
    }
    const selector = searchParams.get('fieldSelector') ?? '';
    const items = [...objects.values()].filter(
      (object) => (!namespace || object.metadata.namespace === namespace) && isSelected(object, selector),
    );
    response.end(JSON.stringify({ items, metadata: { resourceVersion: String(this.#revision) } }));
  }
}

function lineOf(type: string, object: object): string {
  return `${JSON.stringify({ type, object })}\n`;
}

/** By one field, such as `spec.nodeName=a`. */
function isSelected(object: object, selector: string): boolean {
  if (selector === '') return true;
  const [path = '', value] = selector.split('=');
  const field = path
    .split('.')
    .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], object);
  return field === value;
}
