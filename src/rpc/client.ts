import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { ClientCall } from './client-call.ts';
import {
  decode,
  encode,
  type PlainMessage,
  pathOf,
  type Received,
  type Sent,
  type StreamMethod,
  type UnaryMethod,
} from './service-definition.ts';

export { CallFailed } from './client-call.ts';

export interface CallOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

export interface StreamOptions {
  /** Ends the stream, which then throws the signal's reason. */
  readonly signal: AbortSignal;
}

export type Methods<S extends DescService> = {
  readonly [K in UnaryMethod<S>]: (
    request: Sent<S, K, 'input'>,
    options: CallOptions,
  ) => Promise<Received<S, K, 'output'>>;
} & {
  readonly [K in StreamMethod<S>]: (
    request: Sent<S, K, 'input'>,
    options: StreamOptions,
  ) => AsyncIterable<Received<S, K, 'output'>>;
};

/** Calls one service on a unix socket. It connects at the first call and again whenever the connection is lost. */
export class RpcClient<S extends DescService> implements Disposable {
  readonly #socketPath: string;
  #session: ClientHttp2Session | undefined;
  readonly methods: Methods<S>;

  constructor(service: S, socketPath: string) {
    this.#socketPath = socketPath;
    const methods = service.methods.map((method) => {
      const call =
        method.methodKind === 'server_streaming'
          ? (request: PlainMessage, options: StreamOptions) => this.#stream(method, request, options)
          : (request: PlainMessage, options: CallOptions) => this.#call(method, request, options);
      return [method.localName, call];
    });
    this.methods = Object.fromEntries(methods) as Methods<S>;
  }

  [Symbol.dispose](): void {
    this.#session?.close();
  }

  async #call(method: DescMethod, request: PlainMessage, { timeoutMs, signal }: CallOptions): Promise<object> {
    signal?.throwIfAborted();
    using call = this.#start(method, request, signal, timeoutMs);
    return decode(method.output, await call.answer());
  }

  async *#stream(method: DescMethod, request: PlainMessage, { signal }: StreamOptions): AsyncGenerator<object> {
    signal.throwIfAborted();
    using call = this.#start(method, request, signal);
    for await (const message of call.answers()) yield decode(method.output, message);
  }

  #start(method: DescMethod, request: PlainMessage, signal?: AbortSignal, timeoutMs?: number): ClientCall {
    const message = encode(method.input, request);
    return new ClientCall(this.#connected(), { path: pathOf(method), message, signal, timeoutMs });
  }

  #connected(): ClientHttp2Session {
    if (!this.#session || this.#session.closed || this.#session.destroyed) {
      this.#session = connect('http://localhost', { createConnection: () => connectSocket(this.#socketPath) });
      this.#session.on('error', () => undefined); // each call under way hears of it, and tells its caller
    }
    return this.#session;
  }
}
