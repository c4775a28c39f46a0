import { abortable } from './abortable.ts';

/**
 * Lets one holder at a time in by key, in order of arrival. It lives in this process only.
 * Whoever stops waiting (its signal is aborted) never runs.
 */
export class KeyedLock {
  /** The end of each key's line: resolves when everybody in it has left. */
  readonly #tails = new Map<string, Promise<void>>();

  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const ahead = this.#tails.get(key) ?? Promise.resolve();
    const turn = Promise.withResolvers<void>();
    const tail = ahead.then(() => turn.promise);
    this.#tails.set(key, tail);
    try {
      await abortable(ahead, signal);
      signal.throwIfAborted(); // both at once: whoever has left does not run
      return await work();
    } finally {
      turn.resolve();
      void tail.then(() => {
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      });
    }
  }
}
