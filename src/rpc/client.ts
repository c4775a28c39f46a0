import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { connectivityState, credentials, Client as GrpcClient, type ServiceError } from '@grpc/grpc-js';
import { type ErrorCode, MoorageError } from '../base/errors.ts';
import { addressOf, asIs } from './grpc.ts';
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
import { codeOfNumber } from './status.ts';

/** Enough for a list of many thousand volumes. */
const maxResponseBytes = 64 * 1024 * 1024;

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

/** A client of one service on a unix socket. It connects at the first call, and reconnects after a lost connection. */
export class RpcClient<S extends DescService> implements Disposable {
  readonly #socketPath: string;
  #connection: GrpcClient | undefined;
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
    this.#connection?.close();
  }

  async #call(method: DescMethod, request: PlainMessage, { timeoutMs, signal }: CallOptions): Promise<object> {
    signal?.throwIfAborted();
    const bytes = await new Promise<Buffer>((resolve, reject) => {
      const message = encode(method.input, request);
      const options = { deadline: Date.now() + timeoutMs };
      const call = this.#connected().makeUnaryRequest(pathOf(method), asIs, asIs, message, options, (error, answer) => {
        signal?.removeEventListener('abort', cancel);
        if (answer) resolve(answer);
        else reject(signal?.aborted ? signal.reason : new CallFailed(error));
      });
      const cancel = () => call.cancel();
      signal?.addEventListener('abort', cancel, { once: true });
    });
    return decode(method.output, bytes);
  }

  async *#stream(method: DescMethod, request: PlainMessage, { signal }: StreamOptions): AsyncGenerator<object> {
    signal.throwIfAborted();
    const message = encode(method.input, request);
    const call = this.#connected().makeServerStreamRequest(pathOf(method), asIs, asIs, message);
    call.on('error', () => undefined); // a reader gets the error below; no one else needs it
    const cancel = () => call.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    try {
      for await (const bytes of call) yield decode(method.output, bytes as Buffer);
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof MoorageError ? error : new CallFailed(error as ServiceError);
    } finally {
      signal.removeEventListener('abort', cancel);
      cancel();
    }
  }

  /** grpc-js would wait a second or more before it retries a failed connection; a new one is tried at once. */
  #connected(): GrpcClient {
    const state = this.#connection?.getChannel().getConnectivityState(false);
    if (this.#connection && state !== connectivityState.TRANSIENT_FAILURE) return this.#connection;
    this.#connection?.close();
    this.#connection = new GrpcClient(addressOf(this.#socketPath), credentials.createInsecure(), {
      'grpc.max_receive_message_length': maxResponseBytes,
      'grpc.use_local_subchannel_pool': 1,
    });
    return this.#connection;
  }
}

/** An error of the server, or of the connection to it. */
export class CallFailed extends MoorageError {
  readonly code: ErrorCode;

  constructor(error: ServiceError | null) {
    super(error?.details ?? 'the server ended the call without an answer', { cause: error });
    this.code = codeOfNumber(error?.code);
  }
}
