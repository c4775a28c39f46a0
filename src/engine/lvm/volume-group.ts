import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import { Listeners } from '../../base/listeners.ts';
import type { Log } from '../../base/log.ts';
import { DiskMissing, PoolMissing, VolumeHasSnapshots } from '../errors.ts';
import { ActivationChanges, type DeviceNames } from './activation-changes.ts';
import { Confirmation, type SequenceNumberOf } from './confirmation.ts';
import { askLvm, type Effect } from './effect.ts';
import type { Lvm } from './lvm.ts';
import { Removals } from './removals.ts';
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
  /** Whether `touch` is called when others work on the group. */
  readonly isWatched: () => boolean;
  /** Whether somebody holds LVM's lock on the group, and so may be about to change it. */
  readonly isLocked: () => Promise<boolean>;
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
  readonly removals = new Removals(this);
  readonly #confirmation: Confirmation;
  readonly #activations: ActivationChanges;
  readonly #isWatched: () => boolean;
  readonly #isLocked: () => Promise<boolean>;
  readonly #log: Log;
  readonly #lock = new KeyedLock();
  readonly #listeners = new Listeners();
  readonly #volumes = new Map<string, LogicalVolume>();
  /** Set if the last query to LVM failed. */
  #failure: { readonly error: unknown } | undefined;
  /** The comparison with the disks after our last change; only the next change waits for it. */
  #comparison = Promise.resolve();
  #isChanging = false;
  #extentBytes = 1n;
  #extents = 0n;
  #freeExtents = 0n;

  constructor({ name, lvm, sequenceNumberOf, deviceNames, isWatched, isLocked, clock, log }: VolumeGroupOptions) {
    this.name = name;
    this.lvm = lvm;
    this.#confirmation = new Confirmation(sequenceNumberOf, clock);
    this.#activations = new ActivationChanges(deviceNames);
    this.#isWatched = isWatched;
    this.#isLocked = isLocked;
    this.#log = log.child({ volumeGroup: name });
  }

  get extentBytes(): bigint {
    return this.#extentBytes;
  }

  get sizeBytes(): bigint {
    return this.#extents * this.#extentBytes;
  }

  get freeBytes(): bigint {
    return this.#freeExtents * this.#extentBytes;
  }

  get isChanging(): boolean {
    return this.#isChanging;
  }

  volumes(): LogicalVolume[] {
    return [...this.#volumes.values()];
  }

  get(name: string): LogicalVolume | undefined {
    return this.#volumes.get(name);
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
      if (!(await this.#activations.areNew(this.volumes()))) return;
      await this.#survey(signal);
      this.#activations.confirm(this.volumes());
    });
  }

  /** Runs one change at a time, on confirmed memory. */
  async change<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const mustCompare = () => this.#confirmation.touched || !this.#isWatched();
    const isKnown = async () => this.#confirmation.isSure;
    return this.#changeOn({ mustCompare, isKnown }, signal, work);
  }

  /**
   * Like `change`, for work that LVM does even if a disk is missing, so that memory must be current: it is always
   * compared with the disks. While somebody else holds the lock, LVM is queried, which waits for that lock.
   */
  async changeSurely<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const isKnown = async () => this.#confirmation.isSure && !(await this.#isLocked());
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
    effect.apply();
    this.#listeners.notify();
    this.#comparison = this.#compareLater();
  }

  /** Within an effect: adds or updates the volume, which took these extents from the free ones. */
  put(volume: LogicalVolume, takenExtents: bigint): void {
    this.#volumes.set(volume.name, volume);
    this.#freeExtents -= takenExtents;
  }

  /** Within an effect: removes the volume. */
  drop({ name, sizeBytes, pool }: LogicalVolume): void {
    this.#volumes.delete(name);
    if (pool === undefined) this.#freeExtents += sizeBytes / this.#extentBytes;
    for (const snapshot of this.volumes()) {
      if (snapshot.origin === name) this.#volumes.set(snapshot.name, { ...snapshot, origin: undefined });
    }
  }

  /** Within `change`: reads the group from LVM, through the shell. */
  async ask(): Promise<void> {
    this.#confirmation.doubt();
    this.#take(parseReport(await this.lvm.execute(reportArguments(this.name))));
  }

  /** Within `change`: reads the usage of a thin pool from LVM. */
  async measure(pool: LogicalVolume): Promise<LogicalVolume> {
    const usage = parseThinUsage(await this.lvm.execute(thinUsageArguments(this.name, pool.name)));
    const measured = { ...pool, ...usage };
    this.#volumes.set(pool.name, measured);
    this.#listeners.notify();
    return measured;
  }

  /** Reads the usage from the kernel, without waiting for a running LVM command. The pool must have volumes. */
  async measureByKernel(pool: string): Promise<void> {
    const usage = await thinPoolUsage(this.lvm, this.name, pool);
    const known = this.get(pool);
    if (!known || isDeepStrictEqual({ ...known, ...usage }, known)) return;
    this.#volumes.set(pool, { ...known, ...usage });
    this.#listeners.notify();
  }

  /** Thin snapshots in the pool of their origin are independent. LVM would remove all others with the origin. */
  mustHaveNoSnapshots(name: string): void {
    const pool = this.get(name)?.pool;
    const standsAlone = (snapshot: LogicalVolume) => pool !== undefined && snapshot.pool === pool;
    const snapshots = this.volumes().filter((volume) => volume.origin === name && !standsAlone(volume));
    if (snapshots.length > 0)
      throw new VolumeHasSnapshots(
        name,
        snapshots.map((snapshot) => snapshot.name),
      );
  }

  /** Runs after the caller has its answer. A change by somebody else is read as soon as it is detected. */
  async #compareLater(): Promise<void> {
    await this.#confirmation.compare();
    if (!this.#confirmation.inDoubt) return;
    this.lookAgain(neverAborted).catch((error: unknown) => this.#tellUnread(error));
  }

  /** Reads the group even if the caller leaves; if that fails, it is read before the next change. */
  async #settleDoubt(): Promise<void> {
    this.#confirmation.doubt();
    try {
      await this.#survey(neverAborted);
    } catch (error) {
      this.#tellUnread(error);
    }
  }

  #tellUnread(error: unknown): void {
    this.#log.warn(
      { err: error },
      `cannot read the volume group; retrying before its next change: ${messageOf(error)}`,
    );
  }

  async #survey(signal: AbortSignal): Promise<void> {
    this.#confirmation.doubt();
    const report = await this.#reportOf(signal).catch((error: unknown) => this.#failed(error, signal));
    this.#confirmation.use(report.disks.map(({ path, uuid }) => ({ path: `${this.lvm.root}${path}`, uuid })));
    const { metadataAreaBytes } = report;
    this.lvm.useDisks({ devices: report.isPartial ? [] : report.disks.map(({ path }) => path), metadataAreaBytes });
    this.#take(report);
  }

  #failed(error: unknown, signal: AbortSignal): never {
    if (!signal.aborted) this.#failure = { error }; // otherwise the caller cancelled
    throw error;
  }

  /** The group's own disks are enough while the group is complete on them. Other disks may be many, and may hang. */
  async #reportOf(signal: AbortSignal): Promise<GroupReport> {
    return (await this.#reportOfKnownDisks(signal)) ?? parseReport(await this.#reportOfAll(signal));
  }

  async #reportOfKnownDisks(signal: AbortSignal): Promise<GroupReport | undefined> {
    try {
      const text = await this.lvm.surveyDisks(reportArguments(this.name), signal);
      const report = text === undefined ? undefined : parseReport(text);
      return report?.isPartial ? undefined : report;
    } catch (error) {
      if (error instanceof CommandFailed) return undefined; // the group no longer exists, or moved to other disks
      throw error;
    }
  }

  async #reportOfAll(signal: AbortSignal): Promise<string> {
    try {
      return await this.lvm.survey(reportArguments(this.name), signal);
    } catch (error) {
      if (!(error instanceof CommandFailed) || !/Volume group ".*" not found/.test(error.stderr)) throw error;
      throw new PoolMissing(`volume group ${this.name} is not on this node; create it, or correct volume-group`, {
        cause: error,
      });
    }
  }

  #take(report: GroupReport): void {
    this.#confirmation.confirm(report);
    this.#extentBytes = report.extentBytes;
    this.#extents = report.extents;
    this.#freeExtents = report.freeExtents;
    const known = new Map(this.#volumes);
    this.#volumes.clear();
    for (const volume of report.volumes) this.#volumes.set(volume.name, theSame(known.get(volume.name), volume));
    this.#failure = undefined;
    this.#listeners.notify();
  }
}

/** Keeps the object of an unchanged volume, so that others can cache by it. */
function theSame(known: LogicalVolume | undefined, read: LogicalVolume): LogicalVolume {
  return known && isDeepStrictEqual(known, read) ? known : read;
}

/** For work that continues when the caller leaves; the timeout of each LVM command bounds it. */
const neverAborted = new AbortController().signal;

/** Within `changeSurely`, as LVM changes tags even if a disk is missing: adds and removes tags in one command. */
export async function changeTags(
  group: VolumeGroup,
  volume: LogicalVolume,
  { add, remove }: { readonly add: readonly string[]; readonly remove: readonly string[] },
): Promise<void> {
  const tags = [...volume.tags.filter((tag) => !remove.includes(tag)), ...add];
  const words = [...remove.flatMap((tag) => ['--deltag', tag]), ...add.flatMap((tag) => ['--addtag', tag])];
  await group.execute(['lvchange', '--yes', ...words, `${group.name}/${volume.name}`], {
    steps: 1,
    apply: () => group.put({ ...volume, tags }, 0n),
  });
}
