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
  /** Whether somebody calls `touch` when others work on the group. */
  readonly isWatched: () => boolean;
  /** Whether somebody, who may be about to change the group, holds LVM's own lock on it. */
  readonly isLocked: () => Promise<boolean>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A volume group as LVM knows it, in memory: read once, then kept by our own changes, one at a time. Where the disks do not
 * confirm it, and after a command that failed, LVM is asked again before the next change. Device classes in the same group
 * share it.
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
  /** LVM was asked last and did not answer. */
  #failure: { readonly error: unknown } | undefined;
  /** The comparison after our last change; nobody need wait for it but the next change. */
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

  /** Asks LVM for what it has now. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#lock.run(this.name, signal, () => this.#survey(signal));
  }

  /** Somebody works on the group, perhaps only we ourselves. */
  touch(): void {
    this.#confirmation.touch();
  }

  /**
   * Asks LVM if somebody has changed something. To ask is itself seen as somebody at work on the group, so where the
   * disks do not tell it is done once, and then before each change.
   */
  async lookAgain(signal: AbortSignal): Promise<void> {
    const isKnown = async () => !this.#confirmation.inDoubt;
    await this.#changeOn({ mustCompare: () => true, isKnown }, signal, async () => {
      if (!(await this.#activations.areNew(this.volumes()))) return;
      await this.#survey(signal);
      this.#activations.confirm(this.volumes());
    });
  }

  /** One change at a time, on what is known to be so. */
  async change<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const mustCompare = () => this.#confirmation.touched || !this.#isWatched();
    const isKnown = async () => this.#confirmation.isSure;
    return this.#changeOn({ mustCompare, isKnown }, signal, work);
  }

  /**
   * The same for what must not be done on memory that is a moment old, such as what LVM does even if a disk is missing: it
   * is compared with the disks in any case. While somebody else is at work, only LVM itself can tell, when that is done.
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
        // LVM that did not answer while we waited would let everybody in line wait as long, one after the other.
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
   * Within `change`: runs a command to its end, whether or not its caller still waits. LVM killed half-way leaves
   * volumes that are made but not yet wiped. Without one of its disks a group is only activated, and never written to.
   */
  async execute(args: readonly string[], effect: Effect | typeof askLvm): Promise<void> {
    if (this.#confirmation.isPartial && !args.includes('--activate')) throw new DiskMissing(this.name);
    await this.#carryOut(() => this.lvm.execute(args), effect);
  }

  /** Within `change`: the same for a command that gives volumes their devices, however long that takes. It can be called off. */
  async activate(args: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#carryOut(() => this.lvm.activate(args, signal), askLvm);
  }

  async #carryOut(command: () => Promise<unknown>, effect: Effect | typeof askLvm): Promise<void> {
    try {
      await command();
    } catch (error) {
      this.#confirmation.doubt();
      // LVM that did not answer at all would not answer this either: its caller shall not wait for it again.
      if (error instanceof CommandFailed) await this.#settleDoubt();
      throw error;
    }
    if (effect === askLvm) return this.ask();
    this.#confirmation.follow(effect.steps);
    effect.apply();
    this.#listeners.notify();
    this.#comparison = this.#compareLater();
  }

  /** Within an effect: the volume is there, or is as it is now, and took these extents from the free ones. */
  put(volume: LogicalVolume, takenExtents: bigint): void {
    this.#volumes.set(volume.name, volume);
    this.#freeExtents -= takenExtents;
  }

  /** Within an effect: the volume is gone. */
  drop({ name, sizeBytes, pool }: LogicalVolume): void {
    this.#volumes.delete(name);
    if (pool === undefined) this.#freeExtents += sizeBytes / this.#extentBytes;
    for (const snapshot of this.volumes()) {
      if (snapshot.origin === name) this.#volumes.set(snapshot.name, { ...snapshot, origin: undefined });
    }
  }

  /** Within `change`: what LVM has now, through the shell. */
  async ask(): Promise<void> {
    this.#confirmation.doubt();
    this.#take(parseReport(await this.lvm.execute(reportArguments(this.name))));
  }

  /** Within `change`: how full a thin pool is now. */
  async measure(pool: LogicalVolume): Promise<LogicalVolume> {
    const usage = parseThinUsage(await this.lvm.execute(thinUsageArguments(this.name, pool.name)));
    const measured = { ...pool, ...usage };
    this.#volumes.set(pool.name, measured);
    this.#listeners.notify();
    return measured;
  }

  /** The same, as the kernel counts: it waits for no change that LVM is at. The pool must have volumes. */
  async measureByKernel(pool: string): Promise<void> {
    const usage = await thinPoolUsage(this.lvm, this.name, pool);
    const known = this.get(pool);
    if (!known || isDeepStrictEqual({ ...known, ...usage }, known)) return;
    this.#volumes.set(pool, { ...known, ...usage });
    this.#listeners.notify();
  }

  /** Thin snapshots in the pool of their origin stand alone. All others read from it, and LVM takes them along with it. */
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

  /** Our caller has its answer; if somebody was there between, that is read as soon as it is seen. */
  async #compareLater(): Promise<void> {
    await this.#confirmation.compare();
    if (!this.#confirmation.inDoubt) return;
    this.lookAgain(neverAborted).catch((error: unknown) => this.#tellUnread(error));
  }

  /** Finds out what is so now, whether or not the caller still waits; if that fails, before the next change. */
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
      `cannot read the volume group, will try again before its next change: ${messageOf(error)}`,
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
    if (!signal.aborted) this.#failure = { error }; // else it is the caller who did not wait
    throw error;
  }

  /**
   * Its own disks are enough as long as the group is whole on them. Then LVM looks at no others, which may be many, and
   * may hang.
   */
  async #reportOf(signal: AbortSignal): Promise<GroupReport> {
    return (await this.#reportOfKnownDisks(signal)) ?? parseReport(await this.#reportOfAll(signal));
  }

  async #reportOfKnownDisks(signal: AbortSignal): Promise<GroupReport | undefined> {
    try {
      const text = await this.lvm.surveyDisks(reportArguments(this.name), signal);
      const report = text === undefined ? undefined : parseReport(text);
      return report?.isPartial ? undefined : report;
    } catch (error) {
      if (error instanceof CommandFailed) return undefined; // it is not there any more, or elsewhere
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

/** What others made of a volume holds for as long as it is the same object. */
function theSame(known: LogicalVolume | undefined, read: LogicalVolume): LogicalVolume {
  return known && isDeepStrictEqual(known, read) ? known : read;
}

/** For what goes on even if the caller has left; the deadline of each LVM command bounds it. */
const neverAborted = new AbortController().signal;

/** Within `changeSurely`, as LVM changes tags even if a disk is missing: adds and removes tags of a volume in one command. */
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
