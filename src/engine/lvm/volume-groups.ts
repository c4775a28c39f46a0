import { type FSWatcher, watch } from 'node:fs';
import { basename } from 'node:path';
import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Command, Run } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';
import type { Log } from '../../base/log.ts';
import { deviceNamesIn } from './activation-changes.ts';
import type { SequenceNumberOf } from './confirmation.ts';
import { Lvm } from './lvm.ts';
import { type LvmFigures, newLvmFigures } from './lvm-figures.ts';
import { MetadataAreas } from './metadata-area.ts';
import { rootOf } from './shell-settings.ts';
import { VolumeGroup } from './volume-group.ts';

export interface VolumeGroupsOptions {
  /** How to call `lvm` itself, for instance through nsenter. */
  readonly command: Command;
  readonly run: Run;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** One look for a burst of commands, and still well within the two seconds that others may wait. */
const settleMs = 300;
const quickMs = 10_000;
const watchAgainMs = 5_000;

/**
 * The volume groups of this node that somebody serves, each with its memory and its shell. Each LVM command, whoever
 * runs it, takes a lock file in LVM's own directory: that is seen, and tells which group to look at again.
 */
export class VolumeGroups {
  readonly figures: LvmFigures = newLvmFigures();
  readonly #options: VolumeGroupsOptions;
  readonly #groups = new Map<string, VolumeGroup>();
  readonly #opening = new Map<string, Promise<VolumeGroup>>();
  readonly #pending = new Map<string, Timer>();
  readonly #strangers = new Set<(name: string) => void>();
  readonly #stopped = new AbortController();
  #locksDir = '/run/lock/lvm';
  #isWatching = false;
  #watching: Promise<FSWatcher | undefined> | undefined;
  #watchAgain: Timer | undefined;

  constructor(options: VolumeGroupsOptions) {
    this.#options = options;
  }

  /** As LVM has it now; fails if there is no such group. Classes of one group that are opened at once ask LVM once. */
  async open(name: string, signal: AbortSignal): Promise<VolumeGroup> {
    const opening = this.#opening.get(name) ?? this.#load(name, signal).finally(() => this.#opening.delete(name));
    this.#opening.set(name, opening);
    return opening;
  }

  /** Calls back when LVM has worked on a group that is not open: it may just have been made. */
  onStranger(listener: (name: string) => void): () => void {
    this.#strangers.add(listener);
    return () => void this.#strangers.delete(listener);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#watchAgain?.cancel();
    (await this.#watching)?.close();
    for (const timer of this.#pending.values()) timer.cancel();
    for (const { lvm } of this.#groups.values()) lvm.close();
  }

  async #load(name: string, signal: AbortSignal): Promise<VolumeGroup> {
    const group = this.#groups.get(name) ?? this.#newGroup(name);
    try {
      await group.refresh(signal);
      void this.#startWatching(); // whoever starts need not wait for it
    } catch (error) {
      await this.#startWatching(); // or nobody would notice it being made
      throw error;
    }
    this.#groups.set(name, group);
    return group;
  }

  #newGroup(name: string): VolumeGroup {
    const { command, run, env, clock, log } = this.#options;
    const lvm = new Lvm({ command, run, env, clock, log: log.child({ volumeGroup: name }), figures: this.figures });
    const metadata = new MetadataAreas(name);
    const sequenceNumberOf: SequenceNumberOf = (disks) => metadata.sequenceNumberOf(disks);
    const deviceNames = () => deviceNamesIn(`${lvm.root}/dev/${name}`);
    const isWatched = () => this.#isWatching;
    const isLocked = () => exists(`${lvm.root}${this.#locksDir}/V_${name}`); // LVM removes it with the lock
    return new VolumeGroup({ name, lvm, sequenceNumberOf, deviceNames, isWatched, isLocked, clock, log });
  }

  /**
   * Not before LVM has run: its first command after a boot makes the directory of locks. All groups count as worked on
   * when that begins, so that nothing is missed that was done before.
   */
  async #startWatching(): Promise<void> {
    const isFirst = this.#watching === undefined;
    this.#watching ??= this.#watch();
    if (!(await this.#watching)) {
      this.#watching = undefined;
      this.#watchLater();
    } else if (isFirst) {
      for (const name of [...this.#groups.keys(), ...this.#opening.keys()]) this.#lookSoon(name);
    }
  }

  async #watch(): Promise<FSWatcher | undefined> {
    const { command, run, env, log } = this.#options;
    const { signal } = this.#stopped;
    try {
      const words = [...command, 'dumpconfig', '--type', 'full', 'global/locking_dir'] as const;
      const { stdout } = await run(words, { timeoutMs: quickMs, env, signal });
      const dir = /^locking_dir="(\/[^"]*)"/.exec(stdout.trim())?.[1] ?? this.#locksDir;
      this.#locksDir = dir;
      const watcher = watch(`${rootOf(command)}${dir}`, { persistent: false }, (event, file) => {
        if (event === 'rename' && file === basename(dir)) this.#lose(watcher, new Error('their directory was removed'));
        else this.#seen(file);
      });
      this.#isWatching = true;
      watcher.on('error', (error) => this.#lose(watcher, error));
      return watcher;
    } catch (error) {
      if (signal.aborted) return undefined;
      log.warn(
        { err: error },
        `what others do with LVM is seen late, as its locks cannot be watched: ${messageOf(error)}`,
      );
      return undefined;
    }
  }

  /** Until they are watched again, each change begins with a look at the disks. */
  #lose(watcher: FSWatcher, error: Error): void {
    if (!this.#isWatching) return; // it may be told twice
    this.#isWatching = false;
    this.#watching = undefined;
    watcher.close();
    this.#options.log.error({ err: error }, `LVM's locks are no longer watched: ${messageOf(error)}`);
    this.#watchLater();
  }

  #watchLater(): void {
    this.#watchAgain?.cancel();
    if (this.#stopped.signal.aborted) return;
    this.#watchAgain = this.#options.clock.setTimer(() => void this.#startWatching(), watchAgainMs);
  }

  #seen(file: string | null): void {
    const name = /^V_([^:]+)$/.exec(basename(file ?? ''))?.[1];
    if (name !== undefined) this.#lookSoon(name);
  }

  #lookSoon(name: string): void {
    this.#groups.get(name)?.touch();
    if (this.#pending.has(name)) return;
    const look = () => {
      this.#pending.delete(name);
      void this.#look(name);
    };
    this.#pending.set(name, this.#options.clock.setTimer(look, settleMs));
  }

  async #look(name: string): Promise<void> {
    await Promise.allSettled([this.#opening.get(name)]); // what it has read may be older than what was done
    const group = this.#groups.get(name);
    if (!group) {
      for (const listener of this.#strangers) listener(name);
      return;
    }
    try {
      await group.lookAgain(this.#stopped.signal);
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      this.#options.log.warn({ err: error, volumeGroup: name }, `cannot read what others changed: ${messageOf(error)}`);
    }
  }
}
