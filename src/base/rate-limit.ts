import { pause } from './abortable.ts';
import type { Clock } from './clock.ts';

/** Allows a burst, then a number per second. */
export class RateLimit {
  readonly #clock: Clock;
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #countedAtMs: number;

  constructor({ clock, burst, perSecond }: { clock: Clock; burst: number; perSecond: number }) {
    this.#clock = clock;
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
    this.#countedAtMs = clock.monotonic();
  }

  /** Concurrent callers wait one after another. More than the burst can be taken at once, and is waited for. */
  async take(signal: AbortSignal, amount = 1): Promise<void> {
    this.#refill();
    this.#left -= amount;
    if (this.#left < 0) await pause(this.#clock, (-this.#left / this.#perSecond) * 1000, signal);
  }

  #refill(): void {
    const nowMs = this.#clock.monotonic();
    const sinceMs = Math.max(0, nowMs - this.#countedAtMs);
    this.#countedAtMs = nowMs;
    this.#left = Math.min(this.#burst, this.#left + (sinceMs / 1000) * this.#perSecond);
  }
}
