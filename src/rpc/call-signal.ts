import type { Clock, Timer } from '../base/clock.ts';
import { MoorageError } from '../base/errors.ts';

/** For callers that set no deadline: longer than any of the kubelet's and the sidecars' own, but not for ever. */
const longestCallMs = 5 * 60_000;

/** A caller counts its time from before we heard of the call: when it leaves, its deadline has passed a little earlier. */
const headStartMs = 10;

export type CallKind = 'unary' | 'stream';

/** One AbortSignal for all the reasons to stop working on a call; its reason says which. */
export class CallSignal {
  readonly kind: CallKind;
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  readonly #endsAtMs: number;
  readonly #deadline: Timer | undefined;
  #released = false;

  /** A stream whose caller has set no deadline (`Infinity`) lives as long as that listens. */
  constructor(kind: CallKind, timeoutMs: number, clock: Clock) {
    const longestMs = kind === 'unary' ? longestCallMs : Number.POSITIVE_INFINITY;
    const remainingMs = Math.min(longestMs, timeoutMs);
    this.kind = kind;
    this.#clock = clock;
    this.#endsAtMs = clock.now() + remainingMs;
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

  /** Nobody waits for the answer any more, if it was not given already. */
  callerLeft(): void {
    if (this.#released) return;
    if (this.#clock.now() + headStartMs >= this.#endsAtMs) this.#abort.abort(new CallTimedOut());
    else this.cancel('its caller has gone');
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
    super('the deadline of the call has passed; it is safe to call again');
  }
}

export class CallCancelled extends MoorageError {
  readonly code = 'Cancelled';

  constructor(reason: string) {
    super(`the call was cancelled as ${reason}; it is safe to call again`);
  }
}
