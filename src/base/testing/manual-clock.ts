import type { Clock, Timer } from '../clock.ts';

interface Pending {
  readonly dueMs: number;
  readonly callback: () => void;
}

/** A clock for tests: it stands still until it is told to advance. */
export class ManualClock implements Clock {
  #nowMs: number;
  readonly #pending = new Set<Pending>();

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs;
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const pending = { dueMs: this.#nowMs + Math.max(0, delayMs), callback };
    this.#pending.add(pending);
    return { cancel: () => void this.#pending.delete(pending) };
  }

  /** How many timers wait: a test of a clean stop asserts zero. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Fires what falls due on the way, in order of time, and what those callbacks set in turn. */
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
