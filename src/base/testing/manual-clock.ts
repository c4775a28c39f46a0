import type { Clock, Timer } from '../clock.ts';

interface Pending {
  readonly dueMs: number;
  readonly callback: () => void;
}

/** A clock for tests: its time only moves when a test advances it. */
export class ManualClock implements Clock {
  #nowMs: number;
  #setByMs = 0;
  readonly #pending = new Set<Pending>();

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs + this.#setByMs;
  }

  monotonic(): number {
    return this.#nowMs;
  }

  /** Somebody sets the time: no timer is due because of that. */
  jump(byMs: number): void {
    this.#setByMs += byMs;
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const pending = { dueMs: this.#nowMs + Math.max(0, delayMs), callback };
    this.#pending.add(pending);
    return { cancel: () => void this.#pending.delete(pending) };
  }

  /** How many timers are pending: a test of a clean stop asserts zero. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Fires timers that are due, in order of time, including those that their callbacks set. */
  advance(byMs: number): void {
    const untilMs = this.#nowMs + byMs;
    for (let next = this.#nextDue(untilMs); next; next = this.#nextDue(untilMs)) {
      this.#pending.delete(next);
      this.#nowMs = next.dueMs;
      next.callback();
    }
    this.#nowMs = untilMs;
  }

  #nextDue(untilMs: number): Pending | undefined {
    let earliest: Pending | undefined;
    for (const pending of this.#pending) {
      if (pending.dueMs <= untilMs && (!earliest || pending.dueMs < earliest.dueMs)) earliest = pending;
    }
    return earliest;
  }
}
