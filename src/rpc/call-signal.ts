import type { Clock, Timer } from '../base/clock.ts';
import { MoorageError } from '../base/errors.ts';

/** For callers without a deadline: longer than any of the kubelet's and the sidecars', but finite. */
const longestCallMs = 5 * 60_000;

/** A caller's time starts before the call arrives here: when it leaves, its deadline has passed slightly earlier. */
const headStartMs = 10;

export type CallKind = 'unary' | 'stream';

/** One AbortSignal for all reasons to stop working on a call; its reason says which. */
export class CallSignal {
  readonly kind: CallKind;
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  readonly #endsAtMs: number;
  readonly #deadline: Timer | undefined;
  #released = false;

  /** A stream whose caller has set no deadline (`Infinity`) lasts as long as the caller listens. */
  constructor(kind: CallKind, timeoutMs: number, clock: Clock) {
    const longestMs = kind === 'unary' ? longestCallMs : Number.POSITIVE_INFINITY;
    const remainingMs = Math.min(longestMs, timeoutMs);
    this.kind = kind;
    this.#clock = clock;
    this.#endsAtMs = clock.monotonic() + remainingMs;
    if (Number.isFinite(remainingMs)) {
      this.#deadline = clock.setTimer(() => this.#abort.abort(new CallTimedOut()), remainingMs);
    }
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  cancel(reason: string): void {
    this.#abort.abort(new CallCancelled(reason));
  }

  /** The caller has left; an answered call is not affected. */
  callerLeft(): void {
    if (this.#released) return;
    if (this.#clock.monotonic() + headStartMs >= this.#endsAtMs) this.#abort.abort(new CallTimedOut());
    else this.cancel('its caller is gone');
  }

  /** The call has ended. */
  release(): void {
    this.#released = true;
    this.#deadline?.cancel();
  }
}

export class CallTimedOut extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor() {
    super('the deadline of the call has passed; it is safe to retry');
  }
}

export class CallCancelled extends MoorageError {
  readonly code = 'Cancelled';

  constructor(reason: string) {
    super(`the call was cancelled because ${reason}; it is safe to retry`);
  }
}
