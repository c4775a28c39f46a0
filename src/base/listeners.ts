/** Subscribers that are notified of an event. */
export class Listeners<T = void> {
  readonly #listeners = new Set<(value: T) => void>();

  /** Returns a function that unsubscribes. */
  add(listener: (value: T) => void): () => void {
    const own = (value: T) => listener(value); // a listener added twice is called twice, each with its own end
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  notify(value: T): void {
    for (const listener of this.#listeners) listener(value);
  }
}
