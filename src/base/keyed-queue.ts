import type { Clock, Timer } from './clock.ts';
import { messageOf } from './errors.ts';
import type { Log } from './log.ts';

/** Waits for slow work that is done elsewhere. Meanwhile another key may run in place of this one. */
export type Aside = <T>(work: Promise<T>) => Promise<T>;

export type Reconcile = (key: string, signal: AbortSignal, aside: Aside) => Promise<Requeue>;

export interface KeyedQueueOptions {
  readonly reconcile: Reconcile;
  /** How many keys may run at once, not counting those that wait aside; one key never runs twice at once. */
  readonly concurrency: number;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, like Math.random. */
  readonly random: () => number;
}

const firstRetryMs = 100;
const longestRetryMs = 60_000;

/**
 * Work by key. A key that is added twice before it runs runs once; a key that is added while it runs runs again.
 * So a watch only has to add the key of a change, and a reconcile that reads fresh state misses nothing.
 *
 * A failed key is retried with exponential backoff; adding it meanwhile runs it at once, because something changed.
 * The queue keeps no order beyond "first added, first started" and stores nothing across a restart.
 */
export class KeyedQueue {
  readonly #reconcile: Reconcile;
  readonly #concurrency: number;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #random: () => number;

  readonly #waiting = new Set<string>(); // in order of arrival
  readonly #running = new Map<string, Promise<void>>();
  /** Running keys that are not aside, with their start times. */
  readonly #slots = new Map<string, number>();
  /** Keys that are back from aside and wait for a slot. */
  readonly #returning = new Map<string, () => void>();
  readonly #runAgain = new Set<string>();
  readonly #delayed = new Map<string, { readonly dueMs: number; readonly timer: Timer }>();
  readonly #failures = new Map<string, number>();
  readonly #abort = new AbortController();
  #stopping = false;

  constructor({ reconcile, concurrency, clock, log, random }: KeyedQueueOptions) {
    this.#reconcile = reconcile;
    this.#concurrency = concurrency;
    this.#clock = clock;
    this.#log = log;
    this.#random = random;
  }

  /** How many keys wait to run, run, and wait after a failure. */
  get depth(): { readonly waiting: number; readonly running: number; readonly failing: number } {
    const waiting = this.#waiting.size + this.#runAgain.size;
    return { waiting, running: this.#running.size, failing: this.#failures.size };
  }

  /** The key that has run longest, and for how long; keys that wait aside are not counted. */
  get slowest(): { readonly key: string; readonly forMs: number } | undefined {
    const [oldest] = [...this.#slots].toSorted(([, one], [, other]) => one - other);
    return oldest && { key: oldest[0], forMs: this.#clock.monotonic() - oldest[1] };
  }

  add(key: string): void {
    if (this.#stopping) return;
    this.#cancelDelay(key);
    if (this.#running.has(key)) this.#runAgain.add(key);
    else this.#waiting.add(key);
    this.#startWhatFits();
  }

  /** Keeps the earlier time if the key is already scheduled. */
  addAfter(key: string, delayMs: number): void {
    if (this.#stopping) return;
    const dueMs = this.#clock.monotonic() + delayMs;
    const delayed = this.#delayed.get(key);
    if (delayed && delayed.dueMs <= dueMs) return;
    this.#cancelDelay(key);
    const timer = this.#clock.setTimer(() => this.add(key), delayMs);
    this.#delayed.set(key, { dueMs, timer });
  }

  /**
   * Starts nothing more and waits for running keys; after the grace period their signal aborts.
   * Waiting keys are dropped: the next start finds them again.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    for (const key of this.#delayed.keys()) this.#cancelDelay(key);
    this.#waiting.clear();
    this.#runAgain.clear();
    const grace = this.#clock.setTimer(() => this.#abort.abort(), graceMs);
    await Promise.all(this.#running.values());
    grace.cancel();
  }

  /** First keys that have started, then keys that have not. */
  #startWhatFits(): void {
    for (const [key, goOn] of this.#returning) {
      if (this.#slots.size >= this.#concurrency) return;
      this.#returning.delete(key);
      this.#slots.set(key, this.#clock.monotonic());
      goOn();
    }
    for (const key of this.#waiting) {
      if (this.#slots.size >= this.#concurrency) return;
      this.#waiting.delete(key);
      this.#slots.set(key, this.#clock.monotonic());
      this.#running.set(key, this.#run(key));
    }
  }

  async #aside<T>(key: string, work: Promise<T>): Promise<T> {
    this.#slots.delete(key);
    this.#startWhatFits();
    try {
      return await work;
    } finally {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#returning.set(key, resolve);
      this.#startWhatFits();
      await promise;
    }
  }

  async #run(key: string): Promise<void> {
    await Promise.resolve(); // never re-enter the caller of add()
    try {
      const requeue = await this.#reconcile(key, this.#abort.signal, (work) => this.#aside(key, work));
      this.#failures.delete(key);
      if (requeue.kind === 'after') this.addAfter(key, requeue.delayMs);
    } catch (error) {
      this.#retryLater(key, error);
    }
    this.#running.delete(key);
    this.#slots.delete(key);
    if (this.#runAgain.delete(key)) this.add(key);
    else this.#startWhatFits();
  }

  #retryLater(key: string, error: unknown): void {
    if (this.#stopping) return this.#log.warn({ key, err: error }, `stopped before it finished: ${messageOf(error)}`);
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    // Half fixed, half random: retries of keys that failed together spread out, yet none comes too soon.
    const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** (failures - 1));
    const delayMs = Math.round(ceilingMs * (0.5 + this.#random() / 2));
    this.#log.warn({ key, failures, retryInMs: delayMs, err: error }, messageOf(error));
    this.addAfter(key, delayMs);
  }

  #cancelDelay(key: string): void {
    this.#delayed.get(key)?.timer.cancel();
    this.#delayed.delete(key);
  }
}

/** What a successful reconcile requests. A failure is thrown instead, and is retried with backoff. */
export type Requeue = { readonly kind: 'never' } | { readonly kind: 'after'; readonly delayMs: number };

export const Requeue = {
  /** Done until something changes. */
  never: { kind: 'never' },
  /** Run again later, for what no watch reports: a time that has come. */
  after: (delayMs: number): Requeue => ({ kind: 'after', delayMs }),
} as const;
