import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { json, text } from 'node:stream/consumers';
import { urlToHttpOptions } from 'node:url';
import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { Agent as HttpAgent, request as httpRequest } from '../base/node-http.ts';
import { ApiError, type ApiStatus, ApiTimeout, ApiUnreachable } from './api-error.ts';
import { Backoff } from './backoff.ts';
import type { Connection, CredentialSource, Tls } from './connection.ts';
import { Deadline } from './deadline.ts';

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  readonly contentType?: string;
  /** JSON, unless something else is wanted. */
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
}

export interface StreamOptions {
  /** Silence of the stream after which its connection counts as dead. */
  readonly idleTimeoutMs: number;
  /** The server has begun to answer. */
  readonly onOpen?: (() => void) | undefined;
}

/** With the kernel's probes, a peer that vanished is detected in about half a minute. */
const tcpKeepAliveAfterMs = 15_000;
/**
 * How long a connection may be idle, or take to open. Well below the 90 s after which the API server closes an idle one, so
 * that we never write into one it just closed.
 */
const quietMs = 15_000;
const connectionsForRequests = 16;
const triesToReach = 3;

/**
 * Sends requests to one API server, with deadlines, credentials, and the few retries that are safe.
 *
 * It uses HTTP/1.1 on purpose. Each watch then has its own connection: a stuck one blocks no other, there is no GOAWAY
 * that ends all watches and writes in flight at once, and closing the connection is all it takes to cancel.
 * Requests share a limited number of connections, which watches never use.
 */
export class Transport {
  readonly #server: string;
  readonly #target: ReturnType<typeof urlToHttpOptions>;
  readonly #pathPrefix: string;
  readonly #credentials: CredentialSource;
  readonly #requests: HttpAgent;
  readonly #streams: HttpAgent;
  readonly #inProgress = new Set<ClientRequest>();
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timeoutMs: number;

  constructor({
    connection,
    clock,
    log,
    timeoutMs,
  }: {
    connection: Connection;
    clock: Clock;
    log: Log;
    timeoutMs: number;
  }) {
    const { server, credentials } = connection;
    const options = { keepAlive: true, keepAliveMsecs: tcpKeepAliveAfterMs, timeout: quietMs };
    const url = new URL(server);
    const Agent = url.protocol === 'https:' ? HttpsAgent : HttpAgent;
    this.#server = server;
    this.#target = urlToHttpOptions(url);
    this.#pathPrefix = url.pathname.replace(/\/$/, '');
    this.#credentials = credentials;
    this.#requests = new Agent({ ...options, maxSockets: connectionsForRequests });
    this.#streams = new Agent(options);
    this.#clock = clock;
    this.#log = log;
    this.#timeoutMs = timeoutMs;
  }

  /** The parsed JSON of the answer. */
  async call(request: ApiRequest): Promise<unknown> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, async () => {
      return await json(await this.#answered(this.#requests, request, deadline));
    });
  }

  /** The answer as text. */
  async text(request: ApiRequest): Promise<string> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, async () => {
      return await text(await this.#answered(this.#requests, { accept: '*/*', ...request }, deadline));
    });
  }

  /** The answer as a stream of bytes. The deadline covers only its start; after that, silence has a limit. */
  async *stream(request: ApiRequest, { idleTimeoutMs, onOpen }: StreamOptions): AsyncGenerator<Uint8Array, void, void> {
    const response = await this.#open(request);
    onOpen?.();
    const abort = () => response.destroy(request.signal?.reason);
    request.signal?.addEventListener('abort', abort, { once: true });
    response.setTimeout(idleTimeoutMs, () => response.destroy(new StreamSilent(describe(request), idleTimeoutMs)));
    try {
      if (request.signal?.aborted) abort();
      yield* response;
    } catch (error) {
      request.signal?.throwIfAborted();
      if (error instanceof StreamSilent) throw error;
      throw new ApiUnreachable(describe(request), this.#server, error);
    } finally {
      request.signal?.removeEventListener('abort', abort);
      response.destroy();
    }
  }

  async close(): Promise<void> {
    for (const request of this.#inProgress) request.destroy(new Error('the client was closed'));
    this.#requests.destroy();
    this.#streams.destroy();
  }

  async #open(request: ApiRequest): Promise<IncomingMessage> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, () => this.#answered(this.#streams, request, deadline));
  }

  /** One successful answer, with retries where they are safe. */
  async #answered(agent: HttpAgent, request: ApiRequest, deadline: Deadline): Promise<IncomingMessage> {
    const backoff = new Backoff({ firstMs: 100, longestMs: 2_000, random: Math.random });
    let isRenewed = false;
    for (let unreached = 0; ; ) {
      let response: IncomingMessage;
      try {
        response = await this.#send(agent, request, deadline.signal);
      } catch (error) {
        unreached += 1;
        this.#credentials.refused(false); // the server may have a certificate from a new CA
        // A write may have arrived although its answer did not: only the caller knows whether to retry it.
        if (request.method !== 'GET' || unreached >= triesToReach || deadline.signal.aborted) throw error;
        this.#log.debug({ request: describe(request), error: messageOf(error) }, 'retrying');
        await pause(this.#clock, backoff.nextDelayMs(), deadline.signal);
        continue;
      }
      if (statusCodeOf(response) < 300) return response;

      const refusal = new ApiError(describe(request), await statusOf(response));
      if (refusal.status === 401 && !isRenewed) {
        isRenewed = true;
        this.#credentials.refused(true);
        continue;
      }
      const askedMs = retryAfter(response);
      if (askedMs === undefined) throw refusal;
      const retryAfterMs = Math.max(askedMs, backoff.nextDelayMs()); // "retry at once" would be a hot loop
      if (retryAfterMs >= deadline.remainingMs) throw refusal;
      this.#log.debug({ request: describe(request), retryAfterMs }, 'the API server is busy');
      await pause(this.#clock, retryAfterMs, deadline.signal);
    }
  }

  async #send(
    agent: HttpAgent,
    { method, path, query, body, contentType = 'application/json', accept = 'application/json' }: ApiRequest,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const { tls, token, impersonation } = await this.#credentials.read();
    const headers: OutgoingHttpHeaders = { ...impersonation, accept, 'user-agent': 'moorage' };
    if (token !== undefined) headers['authorization'] = `Bearer ${token}`;
    // Not a string: Node would send the headers in its encoding.
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    if (content) {
      headers['content-type'] = contentType;
      headers['content-length'] = content.length;
    }
    const options = {
      ...this.#target,
      ...tlsOptions(tls),
      agent,
      method,
      path: `${this.#pathPrefix}${path}${queryString(query)}`,
      headers,
    };
    return await new Promise((resolve, reject) => {
      const request = (this.#target.protocol === 'https:' ? httpsRequest : httpRequest)(
        { ...options, signal },
        resolve,
      );
      this.#inProgress.add(request);
      request.once('close', () => this.#inProgress.delete(request));
      request.on('error', reject);
      request.on('timeout', () => {
        if (request.socket?.connecting) request.destroy(new Error(`no connection within ${quietMs / 1000} s`));
      });
      request.end(content);
    });
  }

  async #translate<T>(request: ApiRequest, deadline: Deadline, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (deadline.expired) throw new ApiTimeout(describe(request), this.#server, this.#timeoutMs);
      request.signal?.throwIfAborted();
      if (error instanceof MoorageError) throw error;
      throw new ApiUnreachable(describe(request), this.#server, error);
    }
  }
}

/** A stream that should carry bookmarks was silent: the peer hangs, is gone, or has lost our connection. */
export class StreamSilent extends MoorageError {
  readonly code = 'Unavailable';

  constructor(request: string, idleTimeoutMs: number) {
    super(`${request} was silent for ${idleTimeoutMs / 1000} s; reconnecting`);
  }
}

/** Set per request, not per agent: a connection is reused only for requests with the same options. */
function tlsOptions({ serverName, ...material }: Tls) {
  return { ...material, ...(serverName !== undefined && { servername: serverName }) };
}

function describe({ method, path }: ApiRequest): string {
  return `${method} ${path}`;
}

function queryString(query: ApiRequest['query'] = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  return parameters.size > 0 ? `?${parameters.toString()}` : '';
}

/** The `Status` of a refusal; the answer of a proxy is not JSON, and its text becomes the message. */
async function statusOf(response: IncomingMessage): Promise<ApiStatus> {
  const code = statusCodeOf(response);
  const words = await text(response);
  try {
    const status = JSON.parse(words) as ApiStatus & { kind?: string };
    if (status.kind === 'Status') return { ...status, code };
  } catch {
    // not JSON: use the text
  }
  return { code, message: words.trim().slice(0, 200) || `HTTP ${code}` };
}

/** The server did nothing yet and says when to retry: safe for every method. */
function retryAfter(response: IncomingMessage): number | undefined {
  const code = statusCodeOf(response);
  const asked = response.headers['retry-after'];
  if ((code !== 429 && code !== 503) || asked === undefined) return undefined;
  const seconds = Number(asked);
  return Number.isFinite(seconds) ? seconds * 1000 : undefined;
}

/** Every response has one; Node's type also covers requests. */
function statusCodeOf({ statusCode }: IncomingMessage): number {
  return Number(statusCode);
}
