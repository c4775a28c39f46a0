import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import type { Log } from '../../base/log.ts';
import { ChangeListeners } from '../change-listeners.ts';
import { PoolMissing, VolumeHasSnapshots } from '../errors.ts';
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

export interface VolumeGroupOptions {
  readonly name: string;
  readonly lvm: Lvm;
  /** Of the metadata on these devices, without asking LVM; undefined if they do not tell. */
  readonly sequenceNumberOf: (devices: readonly string[]) => Promise<number | undefined>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Memory that was compared with the disks so short a time ago is compared again only after the change. */
const sureForMs = 50;
/** A device that does not answer within this time tells nothing; LVM has deadlines of its own. */
const readTimeoutMs = 2_000;

/**
 * A volume group as LVM knows it, in memory: read once, then kept by our own changes, one at a time. The sequence number
 * that LVM writes with each change tells whether somebody else has changed something; then, and after a command that
 * failed, LVM is asked again. Device classes in the same group share it.
 */
export class VolumeGroup {
  readonly name: string;
  readonly lvm: Lvm;
  readonly removals = new Removals(this);
  readonly #sequenceNumberOf: VolumeGroupOptions['sequenceNumberOf'];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #lock = new KeyedLock();
  readonly #listeners = new ChangeListeners();
  readonly #volumes = new Map<string, LogicalVolume>();
  #devices: readonly string[] = [];
  /** Undefined: not known, for instance because no device tells it. */
  #sequenceNumber: number | undefined;
  #inDoubt = true;
  #reading = false;
  #comparedAtMs = Number.NEGATIVE_INFINITY;
  #extentBytes = 1n;
  #extents = 0n;
  #freeExtents = 0n;

  constructor({ name, lvm, sequenceNumberOf, clock, log }: VolumeGroupOptions) {
    this.name = name;
    this.lvm = lvm;
    this.#sequenceNumberOf = sequenceNumberOf;
    this.#clock = clock;
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

  /** Within `change`: whether memory was compared with the disks. */
  get isSure(): boolean {
    return this.#sequenceNumber !== undefined;
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

  /** Somebody may have changed something: asks LVM if that is so. */
  async lookAgain(signal: AbortSignal): Promise<void> {
    await this.change(signal, async () => undefined);
  }

  /** One change at a time, on what is known to be so. */
  async change<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#lock.run(this.name, signal, async () => {
      if (this.#inDoubt || (await this.#hasChangedOutside())) await this.#survey(signal);
      return work();
    });
  }

  /**
   * Within `change`: runs a command to its end, whether or not its caller still waits. LVM killed half-way leaves
   * volumes that are made but not yet wiped.
   */
  async execute(args: readonly string[], effect: Effect | typeof askLvm): Promise<void> {
    try {
      await this.lvm.execute(args);
    } catch (error) {
      await this.#settleDoubt();
      throw error;
    }
    if (effect === askLvm) return this.ask();
    const now = await this.#readSequenceNumber();
    const expected = this.#sequenceNumber === undefined ? undefined : this.#sequenceNumber + effect.steps;
    if (now !== undefined && now !== expected) return this.#settleDoubt(); // somebody was there between
    this.#sequenceNumber = now;
    this.#comparedAtMs = this.#clock.now();
    effect.apply();
    this.#listeners.notify();
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
    this.#inDoubt = true;
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

  /** Thin snapshots stand alone; copy-on-write ones go with their origin. */
  mustHaveNoSnapshots(name: string): void {
    const snapshots = this.volumes().filter((volume) => volume.origin === name && volume.pool === undefined);
    if (snapshots.length > 0)
      throw new VolumeHasSnapshots(
        name,
        snapshots.map((snapshot) => snapshot.name),
      );
  }

  /** Whether the metadata on the disks is another than we know. */
  async #hasChangedOutside(): Promise<boolean> {
    if (this.#sequenceNumber === undefined || this.#clock.now() - this.#comparedAtMs < sureForMs) return false;
    const now = await this.#readSequenceNumber();
    return now !== undefined && now !== this.#sequenceNumber;
  }

  async #readSequenceNumber(): Promise<number | undefined> {
    if (this.#reading) return undefined; // a read that hangs must not be followed by more that hang
    this.#reading = true;
    const reading = this.#sequenceNumberOf(this.#devices).finally(() => {
      this.#reading = false;
    });
    const late = Promise.withResolvers<undefined>();
    const timer = this.#clock.setTimer(() => late.resolve(undefined), readTimeoutMs);
    try {
      return await Promise.race([reading, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  /** Finds out what is so now, whether or not the caller still waits; if that fails, before the next change. */
  async #settleDoubt(): Promise<void> {
    this.#inDoubt = true;
    try {
      await this.#survey(neverAborted);
    } catch (error) {
      this.#log.warn(
        { err: error },
        `cannot read the volume group, will try again before its next change: ${messageOf(error)}`,
      );
    }
  }

  async #survey(signal: AbortSignal): Promise<void> {
    this.#inDoubt = true;
    const report = parseReport(await this.#reportOf(signal));
    this.#devices = report.devices.map((device) => `${this.lvm.root}${device}`);
    this.lvm.useDevices(report.devices);
    this.#take(report);
  }

  async #reportOf(signal: AbortSignal): Promise<string> {
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
    this.#sequenceNumber = report.sequenceNumber;
    this.#extentBytes = report.extentBytes;
    this.#extents = report.extents;
    this.#freeExtents = report.freeExtents;
    this.#volumes.clear();
    for (const volume of report.volumes) this.#volumes.set(volume.name, volume);
    this.#inDoubt = false;
    this.#listeners.notify();
  }
}

/** For what goes on even if the caller has left; the deadline of each LVM command bounds it. */
const neverAborted = new AbortController().signal;
