/** Those who want to know that something has happened. */
export class Listeners<T = void> {
  readonly #listeners = new Set<(value: T) => void>();

  /** Returns how to stop. */
  add(listener: (value: T) => void): () => void {
    const own = (value: T) => listener(value); // added twice, it is called twice, and each stops alone
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  notify(value: T): void {
    for (const listener of this.#listeners) listener(value);
  }
}
