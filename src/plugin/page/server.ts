import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { codeOf, type ErrorCode, MoorageError, messageOf } from '../../base/errors.ts';
import { refusalOf } from './guard.ts';
import { toJson } from './model.ts';

/** What the page can ask for, apart from the stream. */
export type Answers = Readonly<Record<string, (query: URLSearchParams, signal: AbortSignal) => Promise<unknown>>>;

export interface PageServerOptions {
  readonly html: string;
  readonly token: string;
  /** 0 for a free one. */
  readonly port: number;
  /** Sends lines until the returned function is called. */
  readonly subscribe: (send: (line: string) => void) => () => void;
  readonly answers: Answers;
}

/** A reader that takes nothing for so long is cut off; when it comes back, it gets everything again. */
const mostUnreadBytes = 64 * 1024 ** 2;

/** The paths of the page: what comes after the first word, the page itself reads. */
const views = new Set(['', 'nodes', 'volumes', 'moves', 'evacuate', 'orphans']);

class PortUnavailable extends MoorageError {
  readonly code = 'FailedPrecondition';
}

/** Serves the page and its data on the loopback interface, to clients that have the token. It changes nothing. */
export class PageServer {
  readonly #options: PageServerOptions;
  readonly #server: Server;
  readonly #policy: string;
  readonly #answers: ReadonlyMap<string, Answers[string]>;
  readonly #stop = new AbortController();
  #port = 0;

  constructor(options: PageServerOptions) {
    this.#options = options;
    this.#policy = contentSecurityPolicy(options.html);
    this.#answers = new Map(Object.entries(options.answers).map(([name, answer]) => [`/api/${name}`, answer]));
    this.#server = createServer((request, response) => void this.#respond(request, response));
  }

  /** The address to open, with the token. */
  async listen(): Promise<string> {
    const { port, token } = this.#options;
    this.#server.listen(port, '127.0.0.1');
    try {
      await once(this.#server, 'listening');
    } catch (cause) {
      throw new PortUnavailable(`cannot serve on port ${port}: ${messageOf(cause)}; use another --port`, { cause });
    }
    this.#port = (this.#server.address() as AddressInfo).port;
    return `http://127.0.0.1:${this.#port}/#token=${token}`;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Never rejects: that would end the process. */
  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#answer(request, response);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else send(response, statuses[codeOf(error)] ?? 502, { message: messageOf(error) });
    }
  }

  async #answer({ method, url = '', headers: sent }: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    const [path = '', query] = url.split('?', 2);
    const { host, origin, authorization } = sent;
    const asked = { method, path, host, origin, authorization };
    const refusal = refusalOf(asked, { port: this.#port, token: this.#options.token });
    if (refusal) return send(response, refusal.status, { message: refusal.message });
    if (path === '/api/stream') return this.#stream(response);
    const answer = this.#answers.get(path);
    if (answer) return this.#ask(answer, new URLSearchParams(query), response);
    if (!views.has(path.split('/')[1] ?? '')) return send(response, 404, { message: `there is no ${path}` });
    response.setHeader('content-security-policy', this.#policy);
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(this.#options.html);
  }

  #stream(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/x-ndjson; charset=utf-8' });
    response.flushHeaders();
    const unsubscribe = this.#options.subscribe((line) => {
      if (response.writableLength > mostUnreadBytes) response.destroy();
      else response.write(line);
    });
    response.once('close', unsubscribe);
  }

  async #ask(answer: Answers[string], query: URLSearchParams, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    send(response, 200, await answer(query, AbortSignal.any([gone.signal, this.#stop.signal])));
  }
}

const statuses: Readonly<Partial<Record<ErrorCode, number>>> = {
  NotFound: 404,
  InvalidArgument: 400,
  FailedPrecondition: 409,
  PermissionDenied: 403,
};

const headers = {
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Only what is in the file runs, and it talks only to this server. */
function contentSecurityPolicy(html: string): string {
  const hashes = (element: string) =>
    [...html.matchAll(new RegExp(`<${element}[^>]*>([^]*?)</${element}>`, 'g'))]
      .map(([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
      .join(' ');
  return [
    "default-src 'none'",
    `script-src ${hashes('script')}`,
    `style-src ${hashes('style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const content = toJson(body); // before the head: a failure can still be answered
  response.writeHead(status, { 'content-type': 'application/json' }).end(content);
}
