import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { createServer } from '../base/node-http.ts';
import { parseAddress } from '../http/address.ts';
import { contentType, exposition } from './exposition.ts';
import type { Metric } from './metric.ts';

interface Collaborators {
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  readonly metrics: readonly Metric[];
  /** Why others should not call this process now; undefined if they may. */
  readonly unready?: () => string | undefined;
  /** What in this process does not move any more, and would after a restart; undefined if all does. */
  readonly stuck?: () => string | undefined;
  readonly log: Log;
}

/** `/metrics` for Prometheus; `/healthz` and `/readyz` for the kubelet's probes. */
export class MetricsServer {
  readonly #collaborators: Collaborators;
  readonly #server: Server;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
    this.#server = createServer((request, response) => void this.#respond(request, response));
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
        const text = await exposition(metrics);
        response.setHeader('content-type', contentType).end(text);
      } else if (request.url === '/healthz') {
        answer(response, stuck?.()); // that it comes at all is most of the answer: a process that hangs gives none
      } else if (request.url === '/readyz') {
        answer(response, unready?.());
      } else {
        response.writeHead(404).end('try /metrics, /healthz or /readyz\n');
      }
    } catch (error) {
      log.error({ err: error }, messageOf(error));
      response.writeHead(500).end();
    }
  }
}

function answer(response: ServerResponse, reason: string | undefined): void {
  response.writeHead(reason === undefined ? 200 : 503).end(`${reason ?? 'ok'}\n`);
}
