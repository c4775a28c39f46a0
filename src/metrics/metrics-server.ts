import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { createServer } from '../base/node-http.ts';
import { parseAddress } from '../http/address.ts';
import type { Metric } from './metric.ts';
import { contentType, exposition } from './metric.ts';
import type { Secured } from './secured.ts';

interface Collaborators {
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  readonly metrics: readonly Metric[];
  /** Why this process must not be called now; undefined if it can be. */
  readonly unready?: () => string | undefined;
  /** What is stuck in this process, and would not be after a restart; undefined if nothing is. */
  readonly stuck?: () => string | undefined;
  /** Without it, everyone may read metrics, and nothing is encrypted. */
  readonly secured?: Secured | undefined;
  readonly log: Log;
}

/** `/metrics` for Prometheus; `/healthz` and `/readyz` for the kubelet's probes. */
export class MetricsServer {
  readonly #collaborators: Collaborators;
  readonly #server: Server;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
    const respond = (request: IncomingMessage, response: ServerResponse) => void this.#respond(request, response);
    const { secured } = collaborators;
    this.#server = secured ? createHttpsServer(secured.certificate, respond) : createServer(respond);
  }

  async listen(): Promise<AddressInfo> {
    const { host, port } = parseAddress(this.#collaborators.address);
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port }, resolve);
    });
    return this.#server.address() as AddressInfo;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { metrics, unready, stuck, log } = this.#collaborators;
    try {
      if (request.url === '/metrics') {
        if (!(await this.#admit(request, response))) return;
        const text = await exposition(metrics);
        response.setHeader('content-type', contentType).end(text);
      } else if (request.url === '/healthz') {
        answer(response, stuck?.()); // a process that hangs gives no answer at all
      } else if (request.url === '/readyz') {
        answer(response, unready?.());
      } else {
        response.writeHead(404).end('not found; use /metrics, /healthz or /readyz\n');
      }
    } catch (error) {
      log.error({ err: error }, messageOf(error));
      response.writeHead(500).end();
    }
  }

  /** Sends the error to clients without permission. */
  async #admit({ headers }: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const { secured } = this.#collaborators;
    if (!secured) return true;
    const [, token] = /^Bearer (\S+)$/i.exec(headers.authorization ?? '') ?? [];
    const decision = token === undefined ? 'unauthenticated' : await secured.mayGet(token, '/metrics');
    if (decision === 'allowed') return true;
    const { status, reason } = refusals[decision];
    if (status === 401) response.setHeader('www-authenticate', 'Bearer');
    response.writeHead(status).end(`${reason}\n`);
    return false;
  }
}

function answer(response: ServerResponse, reason: string | undefined): void {
  response.writeHead(reason === undefined ? 200 : 503).end(`${reason ?? 'ok'}\n`);
}

const refusals = {
  unauthenticated: { status: 401, reason: 'missing or unknown token; send Authorization: Bearer <token>' },
  forbidden: {
    status: 403,
    reason: 'not allowed; grant the owner of the token the verb get on the nonResourceURL /metrics',
  },
  busy: { status: 503, reason: 'too many token reviews at once; retry' },
} as const;
