import { type Dispatcher, Pool } from 'undici';
import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { ApiError, type ApiStatus, ApiTimeout, ApiUnreachable } from './api-error.ts';
import { Backoff } from './backoff.ts';
import type { Connection, TokenSource } from './connection.ts';
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

const connectTimeoutMs = 10_000;
/** Together with the kernel's probes a peer that vanished without a word is found out in about half a minute. */
const tcpKeepAliveAfterMs = 15_000;
/** Well below the 90 s after which the API server closes an idle connection: we never write into one it just closed. */
const keepIdleConnectionMs = 30_000;
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
  readonly #pathPrefix: string;
  readonly #token: TokenSource | undefined;
  readonly #requests: Pool;
  readonly #streams: Pool;
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
    const { server, tls, token } = connection;
    const { origin, pathname } = new URL(server);
    const { serverName, ...material } = tls;
    const options: Pool.Options = {
      allowH2: false,
      pipelining: 1,
      keepAliveTimeout: keepIdleConnectionMs,
      headersTimeout: 0, // each request has a deadline of its own
      bodyTimeout: 0,
      connect: {
        ...material,
        ...(serverName ? { servername: serverName } : {}),
        timeout: connectTimeoutMs,
        keepAlive: true,
        keepAliveInitialDelay: tcpKeepAliveAfterMs,
      },
    };
    this.#server = server;
    this.#pathPrefix = pathname.replace(/\/$/, '');
    this.#token = token;
    this.#requests = new Pool(origin, { ...options, connections: connectionsForRequests });
    this.#streams = new Pool(origin, options);
    this.#clock = clock;
    this.#log = log;
    this.#timeoutMs = timeoutMs;
  }

  /** The JSON of the answer. */
  async call(request: ApiRequest): Promise<unknown> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, async () => {
      const response = await this.#answered(this.#requests, request, deadline, 0);
      return await response.body.json();
    });
  }

  /** The bytes of the answer as they come; the deadline is only for its beginning, then it must not fall silent. */
  async *stream(request: ApiRequest, { idleTimeoutMs }: StreamOptions): AsyncGenerator<Uint8Array, void, void> {
    const response = await this.#open(request, idleTimeoutMs);
    const abort = () => response.body.destroy(request.signal?.reason);
    request.signal?.addEventListener('abort', abort, { once: true });
    try {
      if (request.signal?.aborted) abort();
      yield* response.body;
    } catch (error) {
      request.signal?.throwIfAborted();
      if (isSilence(error)) throw new StreamSilent(describe(request), idleTimeoutMs);
      throw new ApiUnreachable(describe(request), this.#server, error);
    } finally {
      request.signal?.removeEventListener('abort', abort);
      response.body.destroy();
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#requests.destroy(), this.#streams.destroy()]);
  }

  async #open(request: ApiRequest, idleTimeoutMs: number): Promise<Dispatcher.ResponseData> {
    using deadline = new Deadline(this.#clock, this.#timeoutMs, request.signal);
    return await this.#translate(request, deadline, () =>
      this.#answered(this.#streams, request, deadline, idleTimeoutMs),
    );
  }

  /** One answer with a status of success, after as many tries as are safe. */
  async #answered(
    pool: Pool,
    request: ApiRequest,
    deadline: Deadline,
    bodyTimeoutMs: number,
  ): Promise<Dispatcher.ResponseData> {
    const backoff = new Backoff({ firstMs: 100, longestMs: 2_000, random: Math.random });
    let tokenRenewed = false;
    for (let unreached = 0; ; ) {
      let response: Dispatcher.ResponseData;
      try {
        response = await this.#send(pool, request, deadline.signal, bodyTimeoutMs);
      } catch (error) {
        unreached += 1;
        // A write may have arrived although its answer did not: only the caller knows whether to repeat it.
        if (request.method !== 'GET' || unreached >= triesToReach || deadline.signal.aborted) throw error;
        this.#log.debug({ request: describe(request), error: messageOf(error) }, 'trying again');
        await pause(this.#clock, backoff.nextDelayMs(), deadline.signal);
        continue;
      }
      if (response.statusCode < 300) return response;

      const refusal = new ApiError(describe(request), await statusOf(response));
      if (refusal.status === 401 && this.#token && !tokenRenewed) {
        tokenRenewed = true;
        this.#token.refused();
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
    pool: Pool,
    { method, path, query, body, contentType = 'application/json' }: ApiRequest,
    signal: AbortSignal,
    bodyTimeoutMs: number,
  ): Promise<Dispatcher.ResponseData> {
    const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'moorage' };
    if (this.#token) headers.authorization = `Bearer ${await this.#token.read()}`;
    if (body !== undefined) headers['content-type'] = contentType;
    return await pool.request({
      method,
      path: `${this.#pathPrefix}${path}${queryString(query)}`,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      bodyTimeout: bodyTimeoutMs,
      signal,
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
async function statusOf(response: Dispatcher.ResponseData): Promise<ApiStatus> {
  const text = await response.body.text();
  try {
    const status = JSON.parse(text) as ApiStatus & { kind?: string };
    if (status.kind === 'Status') return { ...status, code: response.statusCode };
  } catch {
    // not JSON: told as it is
  }
  return { code: response.statusCode, message: text.trim().slice(0, 200) || `HTTP ${response.statusCode}` };
}

/** The server did nothing yet and says when to ask again: safe for every method. */
function retryAfter({ statusCode, headers }: Dispatcher.ResponseData): number | undefined {
  if (statusCode !== 429 && statusCode !== 503) return undefined;
  const seconds = Number(headers['retry-after']);
  return headers['retry-after'] !== undefined && Number.isFinite(seconds) ? seconds * 1000 : undefined;
}

function isSilence(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'UND_ERR_BODY_TIMEOUT';
}
