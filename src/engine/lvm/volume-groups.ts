import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Command, Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { deviceNamesIn } from './activation-changes.ts';
import type { SequenceNumberOf } from './group-memory.ts';
import { Lvm, type LvmCounts, newLvmCounts } from './lvm.ts';
import { LvmLocks } from './lvm-locks.ts';
import { MetadataAreas } from './metadata-area.ts';
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

/**
 * The open volume groups of this node, each with its memory and its shell. LVM's locks show which group to read again.
 */
export class VolumeGroups {
  readonly counts: LvmCounts = newLvmCounts();
  readonly #options: VolumeGroupsOptions;
  readonly #groups = new Map<string, VolumeGroup>();
  readonly #opening = new Map<string, Promise<VolumeGroup>>();
  readonly #pending = new Map<string, Timer>();
  /** Groups that are not open and whose lock this process itself takes, or has just taken. */
  readonly #ownLooks = new Map<string, Timer | undefined>();
  readonly #unknownGroups = new Set<(name: string) => void>();
  readonly #stopped = new AbortController();
  readonly #locks: LvmLocks;

  constructor(options: VolumeGroupsOptions) {
    this.#options = options;
    this.#locks = new LvmLocks(options);
    this.#locks.onTaken((name) => {
      // Otherwise each look for a missing group would cause the next one. The retry sees a group created meanwhile.
      const isOwn = !this.#groups.has(name) && this.#ownLooks.has(name);
      if (!isOwn) this.#lookSoon(name);
    });
    this.#locks.onWatchStarted(() => {
      for (const name of [...this.#groups.keys(), ...this.#opening.keys()]) this.#lookSoon(name);
    });
  }

  /** Reads the group from LVM; fails if it does not exist. Concurrent calls for one group query LVM once. */
  async open(name: string, signal: AbortSignal): Promise<VolumeGroup> {
    const opening = this.#opening.get(name) ?? this.#load(name, signal).finally(() => this.#opening.delete(name));
    this.#opening.set(name, opening);
    return opening;
  }

  /** Calls back when LVM worked on a group that is not open: it may just have been created. */
  onUnknownGroup(listener: (name: string) => void): () => void {
    this.#unknownGroups.add(listener);
    return () => void this.#unknownGroups.delete(listener);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#locks.stop();
    for (const timer of [...this.#pending.values(), ...this.#ownLooks.values()]) timer?.cancel();
    for (const { lvm } of this.#groups.values()) lvm.close();
  }

  async #load(name: string, signal: AbortSignal): Promise<VolumeGroup> {
    const group = this.#groups.get(name) ?? this.#newGroup(name);
    this.#ownLooks.get(name)?.cancel();
    this.#ownLooks.set(name, undefined);
    try {
      await group.refresh(signal);
      void this.#locks.watch(); // startup need not wait for it
    } catch (error) {
      await this.#locks.watch(); // otherwise its creation would go unnoticed
      throw error;
    } finally {
      const forget = () => this.#ownLooks.delete(name);
      this.#ownLooks.set(name, this.#options.clock.setTimer(forget, settleMs)); // its lock may be reported late
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
    return new VolumeGroup({ name, lvm, sequenceNumberOf, deviceNames, locks: this.#locks, clock, log });
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
      for (const listener of this.#unknownGroups) listener(name);
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
