import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { ThinClass } from '../config/device-classes.ts';
import { mustAllowThinSnapshots } from '../erase/eraser.ts';
import { PoolFull, PoolMissing, SnapshotTooSmall, ThinPoolFilling } from '../errors.ts';
import type { Capacity, NewSnapshot, NewVolume, PoolSettings, ThinFigures, Volume, VolumeId } from '../pool.ts';
import { unfinishedTag } from '../tags.ts';
import { deviceSizeBytes } from './block-device.ts';
import { askLvm, type Effect } from './effect.ts';
import { LvmPool, type LvmPoolOptions } from './lvm-pool.ts';
import { extentsFor, isReadOnly, type LogicalVolume } from './report.ts';
import { removedThinOrphan, stretchThinDevice, ThinDeviceOdd } from './thin-device.ts';
import { toVolume } from './to-volume.ts';
import { changeTags } from './volume-group.ts';

export interface ThinPoolOptions extends LvmPoolOptions<ThinClass> {
  readonly clock: Clock;
  /** The size of a device as the kernel has it. */
  readonly deviceSize?: typeof deviceSizeBytes;
}

/** A pool fills by what its volumes write: what was measured longer ago than this is measured again before it counts. */
const usageAgeMs = 5_000;
/** A pool that is half-way to where it promises nothing more is measured so often that what is known is never 30 s old. */
const watchEveryMs = 25_000;

/**
 * Volumes that take space from a thin pool as they are written. The pool promises no more than its ratio allows, and
 * nothing at all once its data or metadata is about to run out: that would break every volume in it.
 */
export class ThinPool extends LvmPool<ThinClass> {
  readonly #clock: Clock;
  readonly #deviceSize: typeof deviceSizeBytes;
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  #nextMeasurement: Timer | undefined;
  #forgetChanges: (() => void) | undefined;
  #isStopped = false;

  private constructor({ clock, deviceSize, ...options }: ThinPoolOptions) {
    super(options);
    this.#clock = clock;
    this.#deviceSize = deviceSize ?? deviceSizeBytes;
  }

  static async open(options: ThinPoolOptions, signal: AbortSignal): Promise<ThinPool> {
    const pool = new ThinPool(options);
    await pool.resume(signal);
    await pool.#prepare(signal);
    pool.#forgetChanges = pool.group.onChange(() => pool.#watchUsage());
    pool.#watchUsage();
    return pool;
  }

  capacity(): Capacity {
    const thin = this.#figures();
    const freeBytes = this.#danger(thin) ? 0n : thin.overprovisionBytes;
    return { sizeBytes: thin.sizeBytes, freeBytes, thin };
  }

  override reconfigure(settings: PoolSettings): void {
    super.reconfigure(settings);
    this.#watchUsage(); // the limits may be others
  }

  override async stop(graceMs: number): Promise<void> {
    this.#isStopped = true;
    this.#forgetChanges?.();
    this.#nextMeasurement?.cancel();
    await super.stop(graceMs);
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.group.change(signal, async () => {
      await this.#growTo(this.mustHave(id), sizeBytes);
      return toVolume(this.mustHave(id));
    });
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    mustAllowThinSnapshots(this.name, this.deviceClass.erase);
    return this.group.changeSurely(signal, async () => {
      if (!(await this.madeSnapshot(source, wanted))) await this.#makeSnapshot(source, wanted);
      const snapshot = this.mustHave(wanted.id);
      await this.#growTo(snapshot, wanted.sizeBytes ?? snapshot.sizeBytes); // also what was made at another size before
      await this.#finish(this.mustHave(wanted.id));
      return toVolume(this.mustHave(wanted.id));
    });
  }

  protected owns({ pool }: LogicalVolume): boolean {
    return pool === this.deviceClass.thinPool.name;
  }

  /** Its pool makes it whole or not at all; without a device it is a ghost, which is seen when it is activated. */
  protected isWhole({ tags }: LogicalVolume): boolean {
    return !tags.includes(unfinishedTag);
  }

  protected async make(wanted: NewVolume, tags: readonly string[]): Promise<void> {
    const sizeBytes = this.#rounded(wanted.sizeBytes);
    await this.#mustBeAbleToPromise(sizeBytes);
    const words = [
      ...['lvcreate', '--yes', '--name', wanted.id],
      ...['--virtualsize', `${sizeBytes}b`, '--thinpool', this.deviceClass.thinPool.name],
      ...['--wipesignatures', 'n'], // what was never written reads as zeros
      ...tags.flatMap((tag) => ['--addtag', tag]),
      ...(this.optionsFor(wanted) ?? this.deviceClass.lvcreateOptions),
      this.group.name,
    ];
    await this.#lvcreate(words, {
      steps: 2,
      apply: () => this.group.put(this.#volume(wanted.id, sizeBytes, tags), 0n),
    });
  }

  async #lvcreate(words: readonly string[], effect: Effect | typeof askLvm): Promise<void> {
    try {
      await this.group.execute(words, effect);
    } catch (error) {
      if (!(await removedThinOrphan(this.group, this.deviceClass.thinPool.name, error, this.log))) throw error;
      await this.group.execute(words, effect);
    }
  }

  /** A pool without an active volume would go to sleep, and be checked from end to end each time it is woken. */
  async #prepare(signal: AbortSignal): Promise<void> {
    await this.group.change(signal, async () => {
      const { name, active } = this.#pool();
      if (!active) await this.group.lvm.activate(['lvchange', '--yes', '--activate', 'y', this.path(name)], signal);
      for (const volume of this.group.volumes().filter((volume) => this.owns(volume) && volume.active)) {
        try {
          await this.#stretch(volume);
        } catch (error) {
          this.log.error(
            { err: error, volume: volume.name },
            `a volume is smaller than it should be: ${messageOf(error)}`,
          );
        }
      }
    });
  }

  #pool(): LogicalVolume {
    const { name } = this.deviceClass.thinPool;
    const pool = this.group.get(name);
    if (pool?.attr.startsWith('t')) return pool;
    throw new PoolMissing(
      `volume group ${this.group.name} has no thin pool ${name} for device class ${this.name}; create it, or correct thin-pool.name`,
    );
  }

  #figures(): ThinFigures {
    const pool = this.group.get(this.deviceClass.thinPool.name);
    const sizeBytes = pool?.sizeBytes ?? 0n;
    const promisedBytes = this.group
      .volumes()
      .filter((volume) => this.owns(volume))
      .reduce((sum, volume) => sum + volume.sizeBytes, 0n);
    const left = scaled(sizeBytes, this.deviceClass.thinPool.overprovisionRatio) - promisedBytes;
    return {
      sizeBytes,
      dataPercent: pool?.dataPercent ?? 0,
      metadataPercent: pool?.metadataPercent ?? 0,
      overprovisionBytes: left > 0n ? left : 0n,
    };
  }

  #danger({ dataPercent, metadataPercent }: ThinFigures): ThinPoolFilling | undefined {
    const { maxDataPercent, maxMetadataPercent, name } = this.deviceClass.thinPool;
    const path = this.path(name);
    if (dataPercent > maxDataPercent) return new ThinPoolFilling(path, 'data', dataPercent, maxDataPercent);
    if (metadataPercent > maxMetadataPercent) {
      return new ThinPoolFilling(path, 'metadata', metadataPercent, maxMetadataPercent);
    }
    return undefined;
  }

  /** Whoever shows how full the pool is, or where there is room, must hear of it well before it is too late. */
  #watchUsage(): void {
    const { maxDataPercent, maxMetadataPercent } = this.deviceClass.thinPool;
    const { dataPercent, metadataPercent } = this.#figures();
    const isFilling = dataPercent > maxDataPercent / 2 || metadataPercent > maxMetadataPercent / 2;
    if (!isFilling || this.#nextMeasurement || this.#isStopped) return;
    this.#nextMeasurement = this.#clock.setTimer(() => void this.#measureAgain(), watchEveryMs);
  }

  async #measureAgain(): Promise<void> {
    try {
      await this.group.measureByKernel(this.deviceClass.thinPool.name);
      this.#measuredAtMs = this.#clock.now();
    } catch (error) {
      this.log.warn({ err: error }, `how full the thin pool is cannot be seen by dmsetup: ${messageOf(error)}`);
    }
    this.#nextMeasurement = undefined;
    this.#watchUsage();
  }

  async #mustBeAbleToPromise(sizeBytes: bigint): Promise<void> {
    if (this.#clock.now() - this.#measuredAtMs > usageAgeMs) {
      await this.group.measure(this.#pool());
      this.#measuredAtMs = this.#clock.now();
    }
    const figures = this.#figures();
    const danger = this.#danger(figures);
    if (danger) throw danger;
    if (sizeBytes > figures.overprovisionBytes) throw new PoolFull(this.name, sizeBytes, figures.overprovisionBytes);
  }

  async #growTo(volume: LogicalVolume, wantedBytes: bigint): Promise<void> {
    const sizeBytes = this.#rounded(wantedBytes);
    if (volume.sizeBytes < sizeBytes) {
      await this.#mustBeAbleToPromise(sizeBytes - volume.sizeBytes);
      const grown = { ...volume, sizeBytes };
      // LVM writes the new size down and leaves the device to us: it would suspend the whole pool.
      await this.group.execute(
        ['lvextend', '--yes', '--driverloaded', 'n', '--size', `${sizeBytes}b`, this.path(volume.name)],
        { steps: 1, apply: () => this.group.put(grown, 0n) },
      );
    }
    await this.#stretch(this.mustHave(volume.name)); // also what a crash left with its old size
  }

  async #makeSnapshot(source: VolumeId, wanted: NewSnapshot): Promise<void> {
    const origin = this.mustHaveWhole(source);
    // Whoever asks for what it asked for the source gets that: both are rounded up to the same extents.
    const wantedBytes = this.#rounded(wanted.sizeBytes ?? origin.sizeBytes);
    if (wantedBytes < origin.sizeBytes) throw new SnapshotTooSmall(wanted.id, origin.sizeBytes, wantedBytes);
    await this.#mustBeAbleToPromise(wantedBytes);
    // LVM would leave thin snapshots without a device at the next boot.
    const words = [
      ...this.snapshotWords(origin, wanted),
      ...['--addtag', unfinishedTag],
      ...['--setactivationskip', 'n', this.path(source)],
    ];
    await this.#lvcreate(words, askLvm);
  }

  /** The tags of its source, which the copy has from the beginning, count as its own from here on. */
  async #finish(snapshot: LogicalVolume): Promise<void> {
    if (!snapshot.tags.includes(unfinishedTag)) return;
    await changeTags(this.group, snapshot, { add: [], remove: [unfinishedTag] });
  }

  /** Lets a device that is smaller than LVM has it written down grow to that. */
  async #stretch(volume: LogicalVolume): Promise<void> {
    if (!(await this.#isTooSmall(volume))) return;
    const { name, sizeBytes } = volume;
    try {
      const readOnly = isReadOnly(volume);
      await stretchThinDevice(this.group.lvm, { group: this.group.name, volume: name, sizeBytes, readOnly });
    } catch (error) {
      this.log.warn(
        { err: error, volume: name },
        `a thin volume grows slowly, and all others wait for it, as dmsetup cannot be used: ${messageOf(error)}`,
      );
      await this.group.lvm.execute(['lvchange', '--yes', '--refresh', this.path(name)]);
    }
    if (await this.#isTooSmall(volume)) {
      throw new ThinDeviceOdd(
        `volume ${name} did not become larger; refresh it with lvchange --refresh, then ask again`,
      );
    }
  }

  async #isTooSmall({ path, sizeBytes }: LogicalVolume): Promise<boolean> {
    const presentBytes = await this.#deviceSize(path);
    return presentBytes !== undefined && presentBytes < sizeBytes;
  }

  #rounded(sizeBytes: bigint): bigint {
    return extentsFor(sizeBytes, this.group.extentBytes) * this.group.extentBytes;
  }

  #volume(id: VolumeId, sizeBytes: bigint, tags: readonly string[]): LogicalVolume {
    return {
      name: id,
      path: `/dev/${this.group.name}/${id}`,
      sizeBytes,
      attr: 'Vwi-a-tz--',
      active: true,
      tags,
      origin: undefined,
      pool: this.deviceClass.thinPool.name,
      dataPercent: 0,
      metadataPercent: undefined,
    };
  }
}

/** Rounded down, and exact for sizes beyond what a double can count. */
function scaled(bytes: bigint, ratio: number): bigint {
  const parts = 1_000_000n;
  return (bytes * BigInt(Math.round(ratio * Number(parts)))) / parts;
}
