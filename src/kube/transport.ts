import type { ClientRequest, IncomingMessage } from 'node:http';
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
  readonly signal?: AbortSignal | undefined;
}

/** Longest silence of a stream before its connection counts as dead. */
export interface StreamOptions {
  readonly idleTimeoutMs: number;
}

/** Together with the kernel's probes a peer that vanished without a word is found out in about half a minute. */
const tcpKeepAliveAfterMs = 15_000;
/**
 * How long a connection may be idle, or take to be made. Well below the 90 s after which the API server closes an idle one:
 * we never write into one it just closed.
 */
const quietMs = 15_000;
const connectionsForRequests = 16;
const triesToReach = 3;

/**
 * Requests to one API server: deadline, identity, and the few retries that are safe.
 *
 * It speaks HTTP/1.1 on purpose. A watch then has a connection of its own: a stuck one holds up nobody else, there is no
 * GOAWAY that ends all watches and all writes in flight at once, and closing a connection is all there is to cancelling.
 * Requests share a bounded number of connections, which watches never take from them.
 */
export class Transport {
  readonly #server: string;
  readonly #target: ReturnType<typeof urlToHttpOptions>;
  readonly #pathPrefix: string;
  readonly #credentials: CredentialSource;
  readonly #requests: HttpAgent;
  readonly #streams: HttpAgent;
  readonly #underWay = new Set<ClientRequest>();
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

  /** The JSON of the answer. */
  async call(request: ApiRequest): Promise<unknown> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, async () => {
      return await json(await this.#answered(this.#requests, request, deadline));
    });
  }

  /** The bytes of the answer as they come; the deadline is only for its beginning, then it must not fall silent. */
  async *stream(request: ApiRequest, { idleTimeoutMs }: StreamOptions): AsyncGenerator<Uint8Array, void, void> {
    const response = await this.#open(request);
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
    for (const request of this.#underWay) request.destroy(new Error('the client was closed'));
    this.#requests.destroy();
    this.#streams.destroy();
  }

  async #open(request: ApiRequest): Promise<IncomingMessage> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, () => this.#answered(this.#streams, request, deadline));
  }

  /** One answer with a status of success, after as many tries as are safe. */
  async #answered(agent: HttpAgent, request: ApiRequest, deadline: Deadline): Promise<IncomingMessage> {
    const backoff = new Backoff({ firstMs: 100, longestMs: 2_000, random: Math.random });
    let isRenewed = false;
    for (let unreached = 0; ; ) {
      let response: IncomingMessage;
      try {
        response = await this.#send(agent, request, deadline.signal);
      } catch (error) {
        unreached += 1;
        this.#credentials.refused(); // perhaps the server has a certificate of a new authority
        // A write may have arrived although its answer did not: only the caller knows whether to repeat it.
        if (request.method !== 'GET' || unreached >= triesToReach || deadline.signal.aborted) throw error;
        this.#log.debug({ request: describe(request), error: messageOf(error) }, 'trying again');
        await pause(this.#clock, backoff.nextDelayMs(), deadline.signal);
        continue;
      }
      if (statusCodeOf(response) < 300) return response;

      const refusal = new ApiError(describe(request), await statusOf(response));
      if (refusal.status === 401 && !isRenewed) {
        isRenewed = true;
        this.#credentials.refused();
        continue;
      }
      const askedMs = retryAfter(response);
      if (askedMs === undefined) throw refusal;
      const retryAfterMs = Math.max(askedMs, backoff.nextDelayMs()); // "at once", again and again, would be a hot loop
      if (retryAfterMs >= deadline.remainingMs) throw refusal;
      this.#log.debug({ request: describe(request), retryAfterMs }, 'the API server is busy');
      await pause(this.#clock, retryAfterMs, deadline.signal);
    }
  }

  async #send(
    agent: HttpAgent,
    { method, path, query, body, contentType = 'application/json' }: ApiRequest,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const headers: Record<string, string | number> = { accept: 'application/json', 'user-agent': 'moorage' };
    const { tls, token } = await this.#credentials.read();
    if (token !== undefined) headers['authorization'] = `Bearer ${token}`;
    const content = body === undefined ? '' : JSON.stringify(body);
    if (body !== undefined) {
      headers['content-type'] = contentType;
      headers['content-length'] = Buffer.byteLength(content);
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
      this.#underWay.add(request);
      request.once('close', () => this.#underWay.delete(request));
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

/** A stream that should at least carry bookmarks carried nothing: the peer is stopped, gone, or no longer knows of us. */
export class StreamSilent extends MoorageError {
  readonly code = 'Unavailable';

  constructor(request: string, idleTimeoutMs: number) {
    super(`${request} was silent for ${idleTimeoutMs / 1000} s; connecting again`);
  }
}

/** Of the request, not of the agent: a connection is used again only by requests that would make the same one. */
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

/** The refusal's `Status`; proxies in between answer in their own words, which are then the message. */
async function statusOf(response: IncomingMessage): Promise<ApiStatus> {
  const code = statusCodeOf(response);
  const words = await text(response);
  try {
    const status = JSON.parse(words) as ApiStatus & { kind?: string };
    if (status.kind === 'Status') return { ...status, code };
  } catch {
    // not JSON: told as it is
  }
  return { code, message: words.trim().slice(0, 200) || `HTTP ${code}` };
}

/** The server did nothing yet and says when to ask again: safe for every method. */
function retryAfter(response: IncomingMessage): number | undefined {
  const code = statusCodeOf(response);
  const asked = response.headers['retry-after'];
  if ((code !== 429 && code !== 503) || asked === undefined) return undefined;
  const seconds = Number(asked);
  return Number.isFinite(seconds) ? seconds * 1000 : undefined;
}

/** Every response has one; Node's type is that of requests too. */
function statusCodeOf({ statusCode }: IncomingMessage): number {
  return Number(statusCode);
}
