import { abortable } from './abortable.ts';

/**
 * Admits one holder per key at a time, in order of arrival, within this process only.
 * A waiter whose signal aborts never runs.
 */
export class KeyedLock {
  /** The end of each key's queue: resolves when everyone in it has finished. */
  readonly #tails = new Map<string, Promise<void>>();

  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const ahead = this.#tails.get(key) ?? Promise.resolve();
    const turn = Promise.withResolvers<void>();
    const tail = ahead.then(() => turn.promise);
    this.#tails.set(key, tail);
    try {
      await abortable(ahead, signal);
      signal.throwIfAborted(); // if both happen at once, the waiter must not run
      return await work();
    } finally {
      turn.resolve();
      void tail.then(() => {
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      });
    }
  }
}
