/** How long to wait before the next try: longer after each failure, and never the same for all clients at once. */
export class Backoff {
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #random: () => number;
  #failures = 0;

  constructor({ firstMs, longestMs, random }: { firstMs: number; longestMs: number; random: () => number }) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
    this.#random = random;
  }

  reset(): void {
    this.#failures = 0;
  }

  /** Counts one more failure; between half and all of the step that is due. */
  nextDelayMs(): number {
    const stepMs = Math.min(this.#longestMs, this.#firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return stepMs * (0.5 + this.#random() / 2);
  }
}
