import type { ServerUnaryCall } from '@grpc/grpc-js';
import type { Clock, Timer } from '../base/clock.ts';
import { MoorageError } from '../base/errors.ts';

/** For callers that set no deadline: longer than any of the kubelet's and the sidecars' own, but not for ever. */
const longestCallMs = 5 * 60_000;

/** One AbortSignal for all the reasons to stop working on a call; its reason says which. */
export class CallSignal {
  readonly #abort = new AbortController();
  readonly kind: 'unary' | 'stream';
  readonly #deadline: Timer | undefined;

  /** A stream lives as long as its caller listens; if that has set a deadline, grpc-js keeps it. */
  constructor(
    call: Pick<ServerUnaryCall<unknown, unknown>, 'getDeadline' | 'once'>,
    kind: 'unary' | 'stream',
    clock: Clock,
  ) {
    this.kind = kind;
    if (kind === 'unary') {
      const remainingMs = Math.min(longestCallMs, Number(call.getDeadline()) - clock.now());
      this.#deadline = clock.setTimer(() => this.#abort.abort(new CallTimedOut()), remainingMs);
    }
    // grpc-js tells of a passed deadline as a cancellation too, whichever comes first.
    call.once('cancelled', () => {
      const timedOut = Number(call.getDeadline()) <= clock.now();
      this.#abort.abort(timedOut ? new CallTimedOut() : new CallCancelled('its caller has gone'));
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  cancel(reason: string): void {
    this.#abort.abort(new CallCancelled(reason));
  }

  release(): void {
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
