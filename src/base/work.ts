import { once } from 'node:events';
import type { Clock } from './clock.ts';
import { KeyedQueue, type Reconcile } from './keyed-queue.ts';
import type { Log } from './log.ts';

/** Where a watch adds the keys to reconcile, now or later. */
export type WorkQueue = Pick<KeyedQueue, 'add' | 'addAfter'>;

export type QueueState = Pick<KeyedQueue, 'depth' | 'slowest'>;

/** One reconciler: its watch, and what it does for a key. */
export interface Work {
  /** In logs and metrics. */
  readonly name: string;
  /** Adds keys, now and on each change. Returns what ends its subscriptions. */
  readonly watch: (queue: WorkQueue) => readonly (() => void)[];
  readonly reconcile: Reconcile;
  readonly concurrency: number;
  /** Runs on the leader only. If leadership is lost, work in progress is aborted: the next leader starts it again. */
  readonly leaderOnly?: boolean;
}

interface Options {
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

interface Running {
  readonly queue: KeyedQueue;
  readonly stopWatching: readonly (() => void)[];
}

/**
 * Runs the reconcilers of a process. Queues, metrics, leadership and stopping follow from the list, so a new reconciler
 * is one more entry.
 */
export class Workers {
  readonly #work: readonly Work[];
  readonly #options: Options;
  readonly #running = new Map<string, Running>();
  /** By name, for metrics and health. The queue of a reconciler that does not run is empty. */
  readonly queues: Readonly<Record<string, QueueState>>;

  constructor(work: readonly Work[], options: Options) {
    this.#work = work;
    this.#options = options;
    this.queues = Object.fromEntries(work.map(({ name }) => [name, this.#stateOf(name)]));
  }

  /** Starts the work of every replica. */
  start(): void {
    for (const work of this.#work) if (!work.leaderOnly) this.#start(work);
  }

  /** Runs the work of the leader until the signal aborts. */
  async lead(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const work = this.#work.filter(({ leaderOnly }) => leaderOnly);
    for (const each of work) this.#start(each);
    await once(signal, 'abort');
    await Promise.all(work.map(({ name }) => this.#stop(name, 0)));
  }

  /** Starts nothing more, and gives work in progress this long to finish. */
  async stop(graceMs: number): Promise<void> {
    await Promise.all([...this.#running.keys()].map((name) => this.#stop(name, graceMs)));
  }

  #stateOf(name: string): QueueState {
    const queue = () => this.#running.get(name)?.queue;
    return {
      get depth() {
        return queue()?.depth ?? { waiting: 0, running: 0, failing: 0 };
      },
      get slowest() {
        return queue()?.slowest;
      },
    };
  }

  #start({ name, watch, reconcile, concurrency }: Work): void {
    const queue = new KeyedQueue({
      ...this.#options,
      log: this.#options.log.child({ work: name }),
      reconcile,
      concurrency,
    });
    this.#running.set(name, { queue, stopWatching: watch(queue) });
  }

  async #stop(name: string, graceMs: number): Promise<void> {
    const running = this.#running.get(name);
    for (const stop of running?.stopWatching ?? []) stop();
    await running?.queue.stop(graceMs);
    if (this.#running.get(name) === running) this.#running.delete(name);
  }
}
