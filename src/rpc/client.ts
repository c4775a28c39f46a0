import type { DescService } from '@bufbuild/protobuf';
import { credentials, Client as GrpcClient, type ServiceError, status } from '@grpc/grpc-js';
import { type ErrorCode, MoorageError } from '../base/errors.ts';
import {
  methodDefinition,
  type PlainMessage,
  type Received,
  type Sent,
  type StreamMethod,
  type UnaryMethod,
} from './service-definition.ts';
import { codeOfNumber } from './status.ts';

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

/** What the other side said no with: its code and its words. */
export class CallFailed extends MoorageError {
  readonly code: ErrorCode;

  constructor(error: ServiceError) {
    super(error.details, { cause: error });
    this.code = codeOfNumber(error.code);
  }
}

/** Room for a list of many thousand volumes. */
const maxResponseBytes = 64 * 1024 * 1024;

/** Calls one service on a unix socket. It connects at the first call and again whenever the connection is lost. */
export class RpcClient<S extends DescService> implements Disposable {
  readonly #connection: GrpcClient;
  readonly methods: Methods<S>;

  constructor(service: S, socketPath: string) {
    this.#connection = new GrpcClient(`unix:${socketPath}`, credentials.createInsecure(), {
      'grpc.max_receive_message_length': maxResponseBytes,
    });
    const methods = service.methods.map((method) => {
      const definition = methodDefinition(method);
      const call =
        method.methodKind === 'server_streaming'
          ? (request: PlainMessage, options: StreamOptions) => this.#stream(definition, request, options)
          : (request: PlainMessage, options: CallOptions) => this.#call(definition, request, options);
      return [method.localName, call];
    });
    this.methods = Object.fromEntries(methods) as Methods<S>;
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }

  #call(
    method: ReturnType<typeof methodDefinition>,
    request: PlainMessage,
    { timeoutMs, signal }: CallOptions,
  ): Promise<object> {
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + timeoutMs;
      const onAbort = () => call.cancel();
      const call = this.#connection.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        { deadline },
        (error, response) => {
          signal?.removeEventListener('abort', onAbort);
          if (error?.code === status.CANCELLED && signal?.aborted) reject(signal.reason);
          else if (error) reject(new CallFailed(error));
          else resolve(response as object);
        },
      );
      if (signal?.aborted) call.cancel();
      else signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  async *#stream(
    method: ReturnType<typeof methodDefinition>,
    request: PlainMessage,
    { signal }: StreamOptions,
  ): AsyncGenerator<object> {
    signal.throwIfAborted();
    const { path, requestSerialize, responseDeserialize } = method;
    const call = this.#connection.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
    call.on('error', () => undefined); // whoever still reads is thrown it; to one who has left, that it ended is no news
    const onAbort = () => call.cancel();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      for await (const message of call) yield message as object;
    } catch (error) {
      signal.throwIfAborted();
      throw new CallFailed(error as ServiceError);
    } finally {
      signal.removeEventListener('abort', onAbort);
      call.cancel();
    }
  }
}
