import { once } from 'node:events';
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { type ErrorCode, InvalidInput } from '../base/errors.ts';
import { FrameReader, frameOf } from './frames.ts';
import { encodeMessage, numberOf, ok } from './status.ts';

const responseHeaders: OutgoingHttpHeaders = { ':status': 200, 'content-type': 'application/grpc' };
const success: OutgoingHttpHeaders = { 'grpc-status': ok };

/** One call as HTTP/2 carries it: a request comes, messages go, a status ends it. */
export class ServerCall {
  readonly #stream: ServerHttp2Stream;

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream;
    stream.on('error', () => undefined); // the close that follows says that the caller is gone
  }

  /** The one message of the request; the signal ends the wait for it. */
  request(maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const reader = new FrameReader(maxBytes);
    const messages: Uint8Array[] = [];
    return new Promise((resolve, reject) => {
      const take = (chunk: Buffer) => {
        try {
          messages.push(...reader.push(chunk));
        } catch (error) {
          reject(error);
          this.#stream.off('data', take).resume(); // what still comes is dropped
        }
      };
      this.#stream.on('data', take);
      this.#stream.once('end', () => {
        const [message] = messages;
        if (message && messages.length === 1 && reader.complete) resolve(message);
        else reject(new InvalidInput(`the request has ${messages.length} whole messages; send one`));
      });
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  }

  /** When all is said, or when the caller has left before. */
  onceClosed(listener: () => void): void {
    this.#stream.once('close', listener);
  }

  /** The only answer. */
  answer(message: Uint8Array): void {
    if (this.#stream.destroyed) return;
    this.#respond();
    this.#endWith(success, frameOf(message));
  }

  /** One answer of many. A caller that does not read makes nobody but itself wait. */
  async write(message: Uint8Array, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#respond();
    if (!this.#stream.write(frameOf(message))) await once(this.#stream, 'drain', { signal });
  }

  /** No more answers. */
  end(): void {
    if (this.#stream.destroyed) return;
    this.#respond();
    this.#endWith(success);
  }

  refuse(code: ErrorCode, message: string): void {
    if (this.#stream.destroyed) return;
    const status = { 'grpc-status': numberOf(code), 'grpc-message': encodeMessage(message) };
    if (this.#stream.headersSent) this.#endWith(status);
    else this.#stream.respond({ ...responseHeaders, ...status }, { endStream: true });
    // Of a request that is refused unread the caller need not send the rest; but this must not overtake the refusal.
    if (!this.#stream.readableEnded) setImmediate(() => this.#stream.close(constants.NGHTTP2_NO_ERROR));
  }

  #respond(): void {
    if (!this.#stream.headersSent) this.#stream.respond(responseHeaders, { waitForTrailers: true });
  }

  #endWith(status: OutgoingHttpHeaders, frame?: Buffer): void {
    this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(status));
    this.#stream.end(frame);
  }
}
