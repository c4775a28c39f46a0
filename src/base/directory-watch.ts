import { type FSWatcher, watch } from 'node:fs';
import type { Clock, Timer } from './clock.ts';
import { messageOf } from './errors.ts';
import type { Log } from './log.ts';

interface Options {
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Reads the files again. Never runs twice at once. */
  readonly read: () => Promise<void>;
}

/** Files are written in several steps, and a half-written file may even be valid. */
const settleMs = 200;

/**
 * Reads files again after they have changed and no more changes follow. Their directory is watched, not the files: editors
 * replace files, and a mounted ConfigMap or Secret replaces the directory that its links lead to.
 */
export class DirectoryWatch {
  readonly #clock: Clock;
  readonly #read: () => Promise<void>;
  readonly #watcher: FSWatcher;
  #timer: Timer | undefined;
  #reading: Promise<void> = Promise.resolve();

  constructor({ directory, clock, log, read }: Options) {
    this.#clock = clock;
    this.#read = read;
    this.#watcher = watch(directory, () => this.readSoon());
    this.#watcher.on('error', (error) =>
      log.error({ err: error }, `cannot watch ${directory}: ${messageOf(error)}; restart this process after a change`),
    );
  }

  readSoon(): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(() => {
      this.#reading = this.#reading.then(this.#read);
    }, settleMs);
  }

  close(): void {
    this.#watcher.close();
    this.#timer?.cancel();
  }
}
