/** Those who want to know that a pool has changed. */
export class ChangeListeners {
  readonly #listeners = new Set<() => void>();

  add(listener: () => void): () => void {
    const own = () => listener(); // added twice, it is called twice, and each stops alone
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
