/** The delay before the next attempt: longer after each failure, and random, so that clients do not retry together. */
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

  /** Counts one more failure. Returns between half and all of the current step. */
  nextDelayMs(): number {
    const stepMs = Math.min(this.#longestMs, this.#firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return stepMs * (0.5 + this.#random() / 2);
  }
}
