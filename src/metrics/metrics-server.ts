import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { InvalidInput, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

interface Collaborators {
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  readonly registry: Registry;
  readonly log: Log;
}

/** `/metrics` for Prometheus and `/healthz` for the kubelet's probes. */
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
    const { registry, log } = this.#collaborators;
    try {
      if (request.url === '/metrics') {
        response.setHeader('content-type', registry.contentType).end(await registry.metrics());
      } else if (request.url === '/healthz') {
        response.end('ok\n'); // that it comes at all is the answer: a process that hangs gives none
      } else {
        response.writeHead(404).end('try /metrics or /healthz\n');
      }
    } catch (error) {
      log.error({ err: error }, messageOf(error));
      response.writeHead(500).end();
    }
  }
}

/** Go's way to write an address, as TopoLVM's flags have it: `:8080`, `127.0.0.1:8080`, `[::1]:8080`. */
export function parseAddress(address: string): { host: string | undefined; port: number } {
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:[\]]*)):(?<port>\d{1,5})$/.exec(address);
  const port = Number(match?.groups?.port);
  if (!match?.groups || port > 65_535) {
    throw new InvalidInput(`the address ${JSON.stringify(address)} cannot be listened on; write host:port or :port`);
  }
  return { host: match.groups.v6 || match.groups.host || undefined, port };
}
