import { type ClientHttp2Session, type ClientHttp2Stream, constants, type IncomingHttpHeaders } from 'node:http2';
import { type ErrorCode, MoorageError, messageOf } from '../base/errors.ts';
import { FrameReader, frameOf } from './frames.ts';
import { codeOfNumber, decodeMessage, ok } from './status.ts';
import { timeoutHeader } from './timeout.ts';

/** Room for a list of many thousand volumes. */
const maxResponseBytes = 64 * 1024 * 1024;

interface CallStart {
  readonly path: string;
  readonly message: Uint8Array;
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | undefined;
}

/**
 * One call as HTTP/2 carries it: a request goes, messages come, a status ends it.
 * To be declared with `using`: a call that is left before its end is cancelled.
 */
export class ClientCall implements Disposable {
  readonly #stream: ClientHttp2Stream;
  readonly #reader = new FrameReader(maxResponseBytes);
  readonly #signal: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #cancel = () => this.#stream.close(constants.NGHTTP2_CANCEL);
  #expired = false;
  #status: IncomingHttpHeaders | undefined;

  constructor(session: ClientHttp2Session, { path, message, signal, timeoutMs }: CallStart) {
    this.#stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(timeoutMs !== undefined && { 'grpc-timeout': timeoutHeader(timeoutMs) }),
    });
    this.#stream.on('error', () => undefined); // told by answer() and answers()
    this.#stream.on('response', (headers) => {
      if (headers['grpc-status'] !== undefined || headers[':status'] !== 200) this.#status = headers;
    });
    this.#stream.on('trailers', (trailers) => {
      this.#status = trailers;
    });
    this.#stream.end(frameOf(message));
    this.#signal = signal;
    signal?.addEventListener('abort', this.#cancel, { once: true });
    if (timeoutMs !== undefined) {
      this.#timer = setTimeout(() => {
        this.#expired = true;
        this.#cancel();
      }, timeoutMs);
    }
  }

  /** The only one. */
  async answer(): Promise<Uint8Array> {
    let answer: Uint8Array | undefined;
    await this.#ended((message) => {
      answer = message;
    });
    if (!answer) throw new CallFailed('Internal', 'the call succeeded, but its answer is missing; call again');
    return answer;
  }

  /** One after the other, as fast as they are taken. */
  async *answers(): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of this.#stream) yield* this.#reader.push(chunk as Buffer);
    } catch (error) {
      throw this.#failure(error);
    }
    this.#mustHaveSucceeded();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#cancel);
    if (!this.#stream.closed) this.#cancel();
  }

  #ended(onMessage: (message: Uint8Array) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stream.on('data', (chunk: Buffer) => {
        try {
          this.#reader.push(chunk).forEach(onMessage);
        } catch (error) {
          reject(error);
        }
      });
      this.#stream.once('error', (error) => reject(this.#failure(error)));
      this.#stream.once('close', () => {
        try {
          resolve(this.#mustHaveSucceeded());
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  #mustHaveSucceeded(): void {
    if (Number(this.#status?.['grpc-status']) !== ok || this.#signal?.aborted) throw this.#failure();
  }

  /** Why there is no answer. What the other side has said is better than what the connection says. */
  #failure(cause?: unknown): unknown {
    if (this.#signal?.aborted) return this.#signal.reason;
    if (this.#expired)
      return new CallFailed('DeadlineExceeded', 'there was no answer in time; it is safe to call again');
    if (cause instanceof MoorageError) return cause;
    const { 'grpc-status': number, 'grpc-message': message, ':status': http } = this.#status ?? {};
    if (number !== undefined) return new CallFailed(codeOfNumber(Number(number)), decodeMessage(String(message ?? '')));
    if (http !== undefined)
      return new CallFailed('Unavailable', `what answers there is no gRPC server: HTTP ${String(http)}`);
    const why = cause instanceof Error ? messageOf(cause.cause ?? cause) : 'the connection was closed';
    return new CallFailed('Unavailable', `the call was not answered: ${why}`, { cause });
  }
}

/** What the other side said no with: its code and its words. */
export class CallFailed extends MoorageError {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
