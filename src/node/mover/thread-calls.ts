import type { MessagePort, Worker } from 'node:worker_threads';
import { codeOf, type ErrorCode, MoorageError, messageOf } from '../../base/errors.ts';

/** Methods that another thread can call. */
export type Methods = Readonly<Record<string, (argument: never, signal: AbortSignal) => Promise<unknown>>>;

type Message =
  | { readonly call: number; readonly method: string; readonly argument: unknown }
  | { readonly abort: number }
  | { readonly answer: number; readonly value: unknown }
  | { readonly answer: number; readonly error: { name: string; code: ErrorCode; message: string } };

/** Calls between two threads, in both directions. */
export class ThreadCalls<Theirs extends Methods> {
  readonly #port: MessagePort | Worker;
  readonly #ours: Methods;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #running = new Map<number, AbortController>();
  #calls = 0;
  #closed: Error | undefined;

  constructor(port: MessagePort | Worker, ours: Methods) {
    this.#port = port;
    this.#ours = ours;
    port.on('message', (message: Message) => void this.#receive(message));
  }

  async call<Name extends keyof Theirs & string>(
    method: Name,
    argument: Parameters<Theirs[Name]>[0],
    signal?: AbortSignal,
  ): Promise<Awaited<ReturnType<Theirs[Name]>>> {
    signal?.throwIfAborted();
    if (this.#closed) throw this.#closed;
    const call = ++this.#calls;
    const answer = Promise.withResolvers<unknown>();
    this.#waiting.set(call, answer);
    const abort = () => this.#send({ abort: call });
    signal?.addEventListener('abort', abort, { once: true });
    this.#send({ call, method, argument });
    try {
      return (await answer.promise) as Awaited<ReturnType<Theirs[Name]>>;
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#waiting.delete(call);
    }
  }

  /** The other thread is gone. */
  close(error: Error): void {
    this.#closed = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    for (const running of this.#running.values()) running.abort(error);
  }

  async #receive(message: Message): Promise<void> {
    if ('abort' in message) return this.#running.get(message.abort)?.abort();
    if ('call' in message) return this.#answer(message.call, message.method, message.argument);
    const waiting = this.#waiting.get(message.answer);
    if ('error' in message) waiting?.reject(new ErrorOfThread(message.error));
    else waiting?.resolve(message.value);
  }

  async #answer(call: number, method: string, argument: unknown): Promise<void> {
    const running = new AbortController();
    this.#running.set(call, running);
    try {
      const value = await this.#ours[method]?.(argument as never, running.signal);
      this.#send({ answer: call, value });
    } catch (error) {
      const name = error instanceof Error ? error.name : 'Error';
      this.#send({ answer: call, error: { name, code: codeOf(error), message: messageOf(error) } });
    } finally {
      this.#running.delete(call);
    }
  }

  #send(message: Message): void {
    if (!this.#closed) this.#port.postMessage(message, []);
  }
}

/** An error as it was thrown in another thread. */
class ErrorOfThread extends MoorageError {
  readonly code: ErrorCode;

  constructor({ name, code, message }: { readonly name: string; readonly code: ErrorCode; readonly message: string }) {
    super(message);
    this.name = name;
    this.code = code;
  }
}
