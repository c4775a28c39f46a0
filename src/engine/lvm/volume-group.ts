import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import { Listeners } from '../../base/listeners.ts';
import type { Log } from '../../base/log.ts';
import { DiskMissing } from '../errors.ts';
import { ActivationChanges, type DeviceNames } from './activation-changes.ts';
import { askLvm, Confirmation, type Effect, GroupMemory, type SequenceNumberOf } from './group-memory.ts';
import type { Lvm } from './lvm.ts';
import type { LvmLocks } from './lvm-locks.ts';
import { effectOfRemoving, type RemovalOutcome, type RemovalRequest, Removals } from './removals.ts';
import {
  type GroupReport,
  type LogicalVolume,
  parseReport,
  parseThinUsage,
  reportArguments,
  thinUsageArguments,
} from './report.ts';
import { thinPoolUsage } from './thin-device.ts';

export interface VolumeGroupOptions {
  readonly name: string;
  readonly lvm: Lvm;
  readonly sequenceNumberOf: SequenceNumberOf;
  readonly deviceNames: DeviceNames;
  /** While they are watched, `touch` is called when others work on the group. */
  readonly locks: Pick<LvmLocks, 'isWatched' | 'isTaken'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A volume group in memory: read once, then updated by our own changes, one at a time. If the disks do not confirm it,
 * or a command failed, LVM is queried again before the next change. Device classes in the same group share it.
 */
export class VolumeGroup {
  readonly name: string;
  readonly lvm: Lvm;
  /** For others to read; their changes go through effects. */
  readonly memory = new GroupMemory();
  readonly #confirmation: Confirmation;
  readonly #activations: ActivationChanges;
  readonly #locks: VolumeGroupOptions['locks'];
  readonly #log: Log;
  readonly #lock = new KeyedLock();
  readonly #listeners = new Listeners();
  readonly #removals: Removals;
  /** Set if the last query to LVM failed. */
  #failure: { readonly error: unknown } | undefined;
  /** The comparison with the disks after our last change; only the next change waits for it. */
  #comparison = Promise.resolve();
  #isChanging = false;
  #isRemoving = false;

  constructor({ name, lvm, sequenceNumberOf, deviceNames, locks, clock, log }: VolumeGroupOptions) {
    this.name = name;
    this.lvm = lvm;
    this.#removals = new Removals(this.memory, lvm);
    this.#confirmation = new Confirmation(sequenceNumberOf, clock);
    this.#activations = new ActivationChanges(deviceNames);
    this.#locks = locks;
    this.#log = log.child({ volumeGroup: name });
  }

  get problem(): string | undefined {
    if (this.#failure) return messageOf(this.#failure.error);
    return this.#confirmation.isPartial ? new DiskMissing(this.name).message : undefined;
  }

  get isChanging(): boolean {
    return this.#isChanging;
  }

  /** The name of a volume in LVM commands. */
  fullName(volume: string): string {
    return `${this.name}/${volume}`;
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Reads the group from LVM. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#lock.run(this.name, signal, () => this.#survey(signal));
  }

  /** Somebody works on the group, perhaps this process itself. */
  touch(): void {
    this.#confirmation.touch();
  }

  /**
   * Queries LVM if somebody changed something. A query itself looks like somebody working on the group, so if the disks
   * cannot be read, LVM is queried once here, and then before each change.
   */
  async lookAgain(signal: AbortSignal): Promise<void> {
    const isKnown = async () => !this.#confirmation.inDoubt;
    await this.#changeOn({ mustCompare: () => true, isKnown }, signal, async () => {
      if (!(await this.#activations.areNew(this.memory.volumes()))) return;
      await this.#survey(signal);
      this.#activations.confirm(this.memory.volumes());
    });
  }

  /** Runs one change at a time, on confirmed memory. */
  async change<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const mustCompare = () => this.#confirmation.touched || !this.#locks.isWatched;
    const isKnown = async () => this.#confirmation.isSure;
    return this.#changeOn({ mustCompare, isKnown }, signal, work);
  }

  /**
   * Like `change`, for work that LVM does even if a disk is missing, so that memory must be current: it is always
   * compared with the disks. While somebody else holds the lock, LVM is queried, which waits for that lock.
   */
  async changeSurely<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const isKnown = async () => this.#confirmation.isSure && !(await this.#locks.isTaken(this.name));
    return this.#changeOn({ mustCompare: () => true, isKnown }, signal, work);
  }

  async #changeOn<T>(
    { mustCompare, isKnown }: { readonly mustCompare: () => boolean; readonly isKnown: () => Promise<boolean> },
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    const before = this.#failure;
    return this.#lock.run(this.name, signal, async () => {
      await this.#comparison;
      if (!this.#confirmation.inDoubt && mustCompare()) await this.#confirmation.compare();
      if (!(await isKnown())) {
        // If LVM failed while we waited, do not let everybody in line wait for the same timeout again.
        if (this.#failure && this.#failure !== before) throw this.#failure.error;
        await this.#survey(signal);
      }
      this.#isChanging = true;
      try {
        return await work();
      } finally {
        this.#isChanging = false;
      }
    });
  }

  /**
   * Within `change`: runs a command to its end, even if the caller leaves: LVM killed half-way leaves volumes that are
   * created but not wiped. A group with a missing disk is only activated, never written to.
   */
  async execute(args: readonly string[], effect: Effect | typeof askLvm): Promise<void> {
    if (this.#confirmation.isPartial && !args.includes('--activate')) throw new DiskMissing(this.name);
    await this.#carryOut(() => this.lvm.execute(args), effect);
  }

  /** Within `change`: like `execute`, for a command that activates volumes. It may take long, and can be cancelled. */
  async activate(args: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#carryOut(() => this.lvm.activate(args, signal), askLvm);
  }

  async #carryOut(command: () => Promise<unknown>, effect: Effect | typeof askLvm): Promise<void> {
    try {
      await command();
    } catch (error) {
      this.#confirmation.doubt();
      // LVM that timed out would time out again: do not let the caller wait twice.
      if (error instanceof CommandFailed) await this.#settleDoubt();
      throw error;
    }
    if (effect === askLvm) return this.ask();
    this.#confirmation.follow(effect.steps);
    effect.apply(this.memory);
    this.#listeners.notify();
    this.#comparison = this.#compareLater();
  }

  /** Within `changeSurely`, as LVM changes tags even if a disk is missing: sets the tags in one command. */
  async setTags(volume: LogicalVolume, tags: readonly string[]): Promise<void> {
    const removed = volume.tags.filter((tag) => !tags.includes(tag));
    const added = tags.filter((tag) => !volume.tags.includes(tag));
    if (removed.length + added.length === 0) return;
    const words = [...removed.flatMap((tag) => ['--deltag', tag]), ...added.flatMap((tag) => ['--addtag', tag])];
    await this.execute(['lvchange', '--yes', ...words, this.fullName(volume.name)], {
      steps: 1,
      apply: (memory) => memory.put({ ...volume, tags }),
    });
  }

  /**
   * Succeeds if the volume does not exist. A caller may leave until the removal has begun. Removals that wait at the same
   * time share one command.
   */
  async remove(removal: RemovalRequest, signal: AbortSignal): Promise<RemovalOutcome> {
    const outcome = this.#removals.join(removal, signal);
    if (!this.#isRemoving) void this.#removeWaiting();
    return outcome;
  }

  /** Runs while removals wait; other changes of the group may run between two commands. */
  async #removeWaiting(): Promise<void> {
    this.#isRemoving = true;
    while (!this.#removals.isEmpty) {
      try {
        await this.changeSurely(neverAborted, () => this.#removeTogether());
      } catch (error) {
        this.#removals.failAll(error);
      }
    }
    this.#isRemoving = false;
  }

  async #removeTogether(): Promise<void> {
    const begun = await this.#removals.begin();
    if (begun.length === 0) return;
    const volumes = begun.flatMap(({ removal }) => this.memory.get(removal.name) ?? []);
    const paths = volumes.map(({ name }) => this.fullName(name));
    try {
      await this.execute(['lvremove', '--yes', ...paths], effectOfRemoving(volumes));
      this.#removals.succeed(begun);
    } catch (error) {
      this.#removals.fail(begun, error);
    }
  }

  /** Within `change`: reads the group from LVM, through the shell. */
  async ask(): Promise<void> {
    this.#confirmation.doubt();
    this.#take(parseReport(await this.lvm.execute(reportArguments(this.name))));
  }

  /** Within `change`: reads the usage of a thin pool from LVM. */
  async measure(pool: LogicalVolume): Promise<void> {
    const usage = parseThinUsage(await this.lvm.execute(thinUsageArguments(this.name, pool.name)));
    this.memory.put({ ...pool, ...usage });
    this.#listeners.notify();
  }

  /** Reads the usage from the kernel, without waiting for a running LVM command. The pool must have volumes. */
  async measureByKernel(pool: string): Promise<void> {
    const usage = await thinPoolUsage(this.lvm, this.name, pool);
    const known = this.memory.get(pool);
    if (!known || isDeepStrictEqual({ ...known, ...usage }, known)) return;
    this.memory.put({ ...known, ...usage });
    this.#listeners.notify();
  }

  /** Runs after the caller has its answer. A change by somebody else is read as soon as it is detected. */
  async #compareLater(): Promise<void> {
    await this.#confirmation.compare();
    if (!this.#confirmation.inDoubt) return;
    this.lookAgain(neverAborted).catch((error: unknown) => this.#logUnread(error));
  }

  /** Reads the group even if the caller leaves; if that fails, it is read before the next change. */
  async #settleDoubt(): Promise<void> {
    this.#confirmation.doubt();
    try {
      await this.#survey(neverAborted);
    } catch (error) {
      this.#logUnread(error);
    }
  }

  #logUnread(error: unknown): void {
    this.#log.warn(
      { err: error },
      `cannot read the volume group; retrying before its next change: ${messageOf(error)}`,
    );
  }

  async #survey(signal: AbortSignal): Promise<void> {
    this.#confirmation.doubt();
    const report = await this.lvm.survey(this.name, signal).catch((error: unknown) => this.#failed(error, signal));
    this.#confirmation.use(report.disks.map(({ path, uuid }) => ({ path: `${this.lvm.root}${path}`, uuid })));
    const { metadataAreaBytes } = report;
    this.lvm.useDisks({ devices: report.isPartial ? [] : report.disks.map(({ path }) => path), metadataAreaBytes });
    this.#take(report);
  }

  #failed(error: unknown, signal: AbortSignal): never {
    if (!signal.aborted) this.#failure = { error }; // otherwise the caller cancelled
    this.#listeners.notify(); // its problem may have changed
    throw error;
  }

  #take(report: GroupReport): void {
    this.#confirmation.confirm(report);
    this.memory.replace(report);
    this.#failure = undefined;
    this.#listeners.notify();
  }
}

/** For work that continues when the caller leaves; the timeout of each LVM command bounds it. */
const neverAborted = new AbortController().signal;
