import type { Clock, Timer } from '../base/clock.ts';

/**
 * The end of one request: its timeout or the caller's signal, whichever comes first.
 * Declare it with `using`, so that neither timer nor listener outlives the request.
 */
export class Deadline implements Disposable {
  readonly #abort = new AbortController();
  readonly #timer: Timer;
  readonly #caller: AbortSignal | undefined;
  readonly #clock: Clock;
  readonly #endsAtMs: number;
  readonly #giveUp = () => this.#abort.abort(this.#caller?.reason);
  #expired = false;

  constructor(clock: Clock, timeoutMs: number, caller?: AbortSignal) {
    this.#clock = clock;
    this.#endsAtMs = clock.monotonic() + timeoutMs;
    this.#caller = caller;
    this.#timer = clock.setTimer(() => {
      this.#expired = true;
      this.#abort.abort(new DOMException('the deadline has passed', 'TimeoutError'));
    }, timeoutMs);
    if (caller?.aborted) this.#giveUp();
    else caller?.addEventListener('abort', this.#giveUp, { once: true });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** True if the timeout ended it, not the caller. */
  get expired(): boolean {
    return this.#expired;
  }

  get remainingMs(): number {
    return this.#endsAtMs - this.#clock.monotonic();
  }

  [Symbol.dispose](): void {
    this.#timer.cancel();
    this.#caller?.removeEventListener('abort', this.#giveUp);
  }
}
