import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Connection } from '../../src/kube/connection.ts';
import type { Scope } from './api-server.ts';

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** For faults that a real API server cannot be made to show: it answers each request with the next answer. */
export class ScriptedServer {
  /** `METHOD /path?query` of each request so far. */
  readonly requests: string[] = [];
  readonly tokens: (string | undefined)[] = [];
  readonly connection: Connection;

  private constructor(connection: Connection) {
    this.connection = connection;
  }

  /** The last answer is repeated. */
  static async start(scope: Scope, ...answers: [Answer, ...Answer[]]): Promise<ScriptedServer> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    scope.after(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const credentials = { read: async () => ({ tls: {} }), refused: () => {} };
    const scripted = new ScriptedServer({ server: `http://127.0.0.1:${port}`, credentials });
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const answer = answers[Math.min(scripted.requests.length, answers.length - 1)];
      scripted.requests.push(`${request.method} ${request.url}`);
      scripted.tokens.push(request.headers.authorization);
      answer?.(response, request);
    });
    return scripted;
  }

  /** The query of the request with this number, from 0. */
  query(number: number): Record<string, string> {
    const url = this.requests[number]?.split(' ')[1] ?? '';
    return Object.fromEntries(new URL(url, 'http://server').searchParams);
  }
}

export const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

export const refusal = (code: number, reason: string, headers: Record<string, string> = {}): Answer =>
  json({ kind: 'Status', code, reason, message: `because of ${reason}` }, code, headers);

/** Events of a watch, which then stays open or ends as `end` says. */
export const watch =
  (events: readonly object[], end: (response: ServerResponse) => void = () => {}): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const event of events) response.write(`${JSON.stringify(event)}\n`);
    end(response);
  };

export const reset: Answer = (response) => void response.socket?.resetAndDestroy();

export const silence: Answer = () => {};

export const configMap = (name: string, resourceVersion: number, uid = `uid-of-${name}`) => ({
  metadata: { name, namespace: 'default', uid, resourceVersion: String(resourceVersion), managedFields: [{}] },
});

export const bookmark = (resourceVersion: number, initialEventsEnd = false) => ({
  type: 'BOOKMARK',
  object: {
    metadata: {
      resourceVersion: String(resourceVersion),
      annotations: initialEventsEnd ? { 'k8s.io/initial-events-end': 'true' } : {},
    },
  },
});
