import { once } from 'node:events';
import { KeyedQueue, type KeyedQueueOptions } from '../base/keyed-queue.ts';

export interface LeaderQueueOptions extends Omit<KeyedQueueOptions, 'concurrency'> {
  /** Adds what there is to do, now and whenever something changes, until what it returns is called. */
  readonly watch: (add: (key: string) => void) => () => void;
}

/** Work that a watch tells of, one key after the other: to be run by one replica at a time. */
export class LeaderQueue {
  readonly #options: LeaderQueueOptions;
  #queue: KeyedQueue | undefined;

  constructor(options: LeaderQueueOptions) {
    this.#options = options;
  }

  get depth(): KeyedQueue['depth'] {
    return this.#queue?.depth ?? { waiting: 0, running: 0, failing: 0 };
  }

  get slowest(): KeyedQueue['slowest'] {
    return this.#queue?.slowest;
  }

  /** Until the signal aborts. What is under way then is called off: whoever runs next begins it anew. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { watch, ...its } = this.#options;
    const queue = new KeyedQueue({ ...its, concurrency: 1 });
    this.#queue = queue;
    const stopWatching = watch((key) => queue.add(key));
    await once(signal, 'abort');
    stopWatching();
    await queue.stop(0);
  }
}
