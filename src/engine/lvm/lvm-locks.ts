import { type FSWatcher, watch } from 'node:fs';
import { basename } from 'node:path';
import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Command, Run } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';
import { Listeners } from '../../base/listeners.ts';
import type { Log } from '../../base/log.ts';
import { rootOf } from './shell-settings.ts';

export interface LvmLocksOptions {
  readonly command: Command;
  readonly run: Run;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

const quickMs = 10_000;
const watchAgainMs = 5_000;

/** LVM's lock files. Every LVM command on the node takes one per group, and removes it with the lock. */
export class LvmLocks {
  readonly #options: LvmLocksOptions;
  readonly #taken = new Listeners<string>();
  readonly #watchStarted = new Listeners();
  readonly #stopped = new AbortController();
  #directory = '/run/lock/lvm';
  #isWatched = false;
  #watching: Promise<FSWatcher | undefined> | undefined;
  #watchAgain: Timer | undefined;

  constructor(options: LvmLocksOptions) {
    this.#options = options;
  }

  /** Whether locks that others take are reported. */
  get isWatched(): boolean {
    return this.#isWatched;
  }

  /** Whether somebody holds the lock on the group now, and so may be about to change it. */
  async isTaken(group: string): Promise<boolean> {
    return exists(`${rootOf(this.#options.command)}${this.#directory}/V_${group}`);
  }

  /** Calls back with the name of a group whose lock was taken or released. */
  onTaken(listener: (group: string) => void): void {
    this.#taken.add(listener);
  }

  /** Calls back when the watch has started, also again: earlier locks may have been missed. */
  onWatchStarted(listener: () => void): void {
    this.#watchStarted.add(listener);
  }

  /** Only after LVM has run once: its first command after a boot creates the directory. Retried until it succeeds. */
  async watch(): Promise<void> {
    const isFirst = this.#watching === undefined;
    this.#watching ??= this.#start();
    if (!(await this.#watching)) {
      this.#watching = undefined;
      this.#watchLater();
    } else if (isFirst) {
      this.#watchStarted.notify();
    }
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#watchAgain?.cancel();
    (await this.#watching)?.close();
  }

  async #start(): Promise<FSWatcher | undefined> {
    const { command, run, env, log } = this.#options;
    const { signal } = this.#stopped;
    try {
      const words = [...command, 'dumpconfig', '--type', 'full', 'global/locking_dir'] as const;
      const { stdout } = await run(words, { timeoutMs: quickMs, env, signal });
      const directory = /^locking_dir="(\/[^"]*)"/.exec(stdout.trim())?.[1] ?? this.#directory;
      this.#directory = directory;
      const watcher = watch(`${rootOf(command)}${directory}`, { persistent: false }, (event, file) => {
        if (event === 'rename' && file === basename(directory))
          this.#lose(watcher, new Error('the lock directory was removed'));
        else this.#seen(file);
      });
      this.#isWatched = true;
      watcher.on('error', (error) => this.#lose(watcher, error));
      return watcher;
    } catch (error) {
      if (signal.aborted) return undefined;
      log.warn(
        { err: error },
        `cannot watch LVM's locks, so changes by others are detected late; retrying: ${messageOf(error)}`,
      );
      return undefined;
    }
  }

  #seen(file: string | null): void {
    const name = /^V_([^:]+)$/.exec(basename(file ?? ''))?.[1];
    if (name !== undefined) this.#taken.notify(name);
  }

  /** Until the watch is back, each change first compares memory with the disks. */
  #lose(watcher: FSWatcher, error: Error): void {
    if (!this.#isWatched) return; // it may be reported twice
    this.#isWatched = false;
    this.#watching = undefined;
    watcher.close();
    this.#options.log.error({ err: error }, `lost the watch on LVM's locks; retrying: ${messageOf(error)}`);
    this.#watchLater();
  }

  #watchLater(): void {
    this.#watchAgain?.cancel();
    if (this.#stopped.signal.aborted) return;
    this.#watchAgain = this.#options.clock.setTimer(() => void this.watch(), watchAgainMs);
  }
}
