import { type FSWatcher, watch } from 'node:fs';
import { basename } from 'node:path';
import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Command, Run } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';
import type { Log } from '../../base/log.ts';
import { deviceNamesIn } from './activation-changes.ts';
import type { SequenceNumberOf } from './confirmation.ts';
import { Lvm, type LvmCounts, newLvmCounts } from './lvm.ts';
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

/** Combines a burst of commands into one look, well within the two seconds that others may wait. */
const settleMs = 300;
const quickMs = 10_000;
const watchAgainMs = 5_000;

/**
 * The open volume groups of this node, each with its memory and its shell. Every LVM command on the node takes a lock
 * file per group; watching those files shows which group to read again.
 */
export class VolumeGroups {
  readonly counts: LvmCounts = newLvmCounts();
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

  /** Reads the group from LVM; fails if it does not exist. Concurrent calls for one group query LVM once. */
  async open(name: string, signal: AbortSignal): Promise<VolumeGroup> {
    const opening = this.#opening.get(name) ?? this.#load(name, signal).finally(() => this.#opening.delete(name));
    this.#opening.set(name, opening);
    return opening;
  }

  /** Calls back when LVM worked on a group that is not open: it may just have been created. */
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
      void this.#startWatching(); // startup need not wait for it
    } catch (error) {
      await this.#startWatching(); // otherwise its creation would go unnoticed
      throw error;
    }
    this.#groups.set(name, group);
    return group;
  }

  #newGroup(name: string): VolumeGroup {
    const { command, run, env, clock, log } = this.#options;
    const lvm = new Lvm({ command, run, env, clock, log: log.child({ volumeGroup: name }), counts: this.counts });
    const metadata = new MetadataAreas(name);
    const sequenceNumberOf: SequenceNumberOf = (disks) => metadata.sequenceNumberOf(disks);
    const deviceNames = () => deviceNamesIn(`${lvm.root}/dev/${name}`);
    const isWatched = () => this.#isWatching;
    const isLocked = () => exists(`${lvm.root}${this.#locksDir}/V_${name}`); // LVM removes the file with the lock
    return new VolumeGroup({ name, lvm, sequenceNumberOf, deviceNames, isWatched, isLocked, clock, log });
  }

  /**
   * Only after LVM has run once: its first command after a boot creates the lock directory. When the watch starts, all
   * groups are checked, so that no earlier change is missed.
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
        if (event === 'rename' && file === basename(dir))
          this.#lose(watcher, new Error('the lock directory was removed'));
        else this.#seen(file);
      });
      this.#isWatching = true;
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

  /** Until the watch is back, each change first compares memory with the disks. */
  #lose(watcher: FSWatcher, error: Error): void {
    if (!this.#isWatching) return; // it may be reported twice
    this.#isWatching = false;
    this.#watching = undefined;
    watcher.close();
    this.#options.log.error({ err: error }, `lost the watch on LVM's locks; retrying: ${messageOf(error)}`);
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
    await Promise.allSettled([this.#opening.get(name)]); // its report may be older than the change
    const group = this.#groups.get(name);
    if (!group) {
      for (const listener of this.#strangers) listener(name);
      return;
    }
    try {
      await group.lookAgain(this.#stopped.signal);
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      this.#options.log.warn({ err: error, volumeGroup: name }, `cannot read changes by others: ${messageOf(error)}`);
    }
  }
}
