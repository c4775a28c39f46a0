import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { ThinClass } from '../config/device-classes.ts';
import { mustAllowThinSnapshots } from '../erase/eraser.ts';
import { PoolFull, PoolMissing, SnapshotTooSmall, ThinPoolFilling } from '../errors.ts';
import type { Capacity, NewSnapshot, NewVolume, PoolSettings, ThinCapacity, Volume, VolumeId } from '../pool.ts';
import { unfinishedTag } from '../tags.ts';
import { askLvm, type Effect } from './effect.ts';
import { LvmPool, type LvmPoolOptions } from './lvm-pool.ts';
import { extentsFor, isReadOnly, type LogicalVolume } from './report.ts';
import { deviceSizeBytes, growThinDevice, removedThinOrphan, ThinDeviceOdd } from './thin-device.ts';
import { toVolume } from './to-volume.ts';
import { changeTags } from './volume-group.ts';

export interface ThinPoolOptions extends LvmPoolOptions<ThinClass> {
  readonly clock: Clock;
  /** Reads the size of a device from the kernel. */
  readonly deviceSize?: typeof deviceSizeBytes;
}

/** Volumes fill their pool as they write: an older measurement is repeated before it is used. */
const usageAgeMs = 5_000;
/** How often a pool that is half-way to a limit is measured, so that its usage is never older than 30 s. */
const watchEveryMs = 25_000;

/**
 * Volumes that take space from a thin pool as they are written. The pool allocates no more than its overprovision ratio
 * allows, and nothing once its data or metadata is about to run out: that would break every volume in it.
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
    const thin = this.#thinCapacity();
    const freeBytes = this.#danger(thin) ? 0n : thin.overprovisionBytes;
    return { sizeBytes: thin.sizeBytes, freeBytes, thin };
  }

  override reconfigure(settings: PoolSettings): void {
    super.reconfigure(settings);
    this.#watchUsage(); // the limits may have changed
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
      await this.#growTo(snapshot, wanted.sizeBytes ?? snapshot.sizeBytes); // an earlier call may have used another size
      await this.#finish(this.mustHave(wanted.id));
      return toVolume(this.mustHave(wanted.id));
    });
  }

  protected owns({ pool }: LogicalVolume): boolean {
    return pool === this.deviceClass.thinPool.name;
  }

  /** A pool creates a volume completely or not at all. A volume without a device is a ghost, detected at activation. */
  protected isWhole({ tags }: LogicalVolume): boolean {
    return !tags.includes(unfinishedTag);
  }

  protected async make(wanted: NewVolume, tags: readonly string[]): Promise<void> {
    const sizeBytes = this.#rounded(wanted.sizeBytes);
    await this.#mustBeAbleToPromise(sizeBytes);
    const words = [
      ...['lvcreate', '--yes', '--name', wanted.id],
      ...['--virtualsize', `${sizeBytes}b`, '--thinpool', this.deviceClass.thinPool.name],
      ...['--wipesignatures', 'n'], // unwritten space reads as zeros
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

  /** Keeps the pool active: LVM would deactivate it without active volumes, and check it at each activation. */
  async #prepare(signal: AbortSignal): Promise<void> {
    await this.group.change(signal, async () => {
      const { name, active } = this.#pool();
      if (!active) await this.group.lvm.activate(['lvchange', '--yes', '--activate', 'y', this.path(name)], signal);
      for (const volume of this.group.volumes().filter((volume) => this.owns(volume) && volume.active)) {
        try {
          await this.#growDevice(volume);
        } catch (error) {
          this.log.error(
            { err: error, volume: volume.name },
            `volume ${volume.name} is smaller than its size in LVM: ${messageOf(error)}`,
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

  #thinCapacity(): ThinCapacity {
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

  #danger({ dataPercent, metadataPercent }: ThinCapacity): ThinPoolFilling | undefined {
    const { maxDataPercent, maxMetadataPercent, name } = this.deviceClass.thinPool;
    const path = this.path(name);
    if (dataPercent > maxDataPercent) return new ThinPoolFilling(path, 'data', dataPercent, maxDataPercent);
    if (metadataPercent > maxMetadataPercent) {
      return new ThinPoolFilling(path, 'metadata', metadataPercent, maxMetadataPercent);
    }
    return undefined;
  }

  /** Keeps the reported usage current, well before the pool is full. */
  #watchUsage(): void {
    const { maxDataPercent, maxMetadataPercent } = this.deviceClass.thinPool;
    const { dataPercent, metadataPercent } = this.#thinCapacity();
    const isFilling = dataPercent > maxDataPercent / 2 || metadataPercent > maxMetadataPercent / 2;
    if (!isFilling || this.#nextMeasurement || this.#isStopped) return;
    this.#nextMeasurement = this.#clock.setTimer(() => void this.#measureAgain(), watchEveryMs);
  }

  async #measureAgain(): Promise<void> {
    try {
      await this.group.measureByKernel(this.deviceClass.thinPool.name);
      this.#measuredAtMs = this.#clock.now();
    } catch (error) {
      this.log.warn({ err: error }, `cannot read the usage of the thin pool with dmsetup: ${messageOf(error)}`);
    }
    this.#nextMeasurement = undefined;
    this.#watchUsage();
  }

  async #mustBeAbleToPromise(sizeBytes: bigint): Promise<void> {
    if (this.#clock.now() - this.#measuredAtMs > usageAgeMs) {
      await this.group.measure(this.#pool());
      this.#measuredAtMs = this.#clock.now();
    }
    const thin = this.#thinCapacity();
    const danger = this.#danger(thin);
    if (danger) throw danger;
    if (sizeBytes > thin.overprovisionBytes) throw new PoolFull(this.name, sizeBytes, thin.overprovisionBytes);
  }

  async #growTo(volume: LogicalVolume, wantedBytes: bigint): Promise<void> {
    const sizeBytes = this.#rounded(wantedBytes);
    if (volume.sizeBytes < sizeBytes) {
      await this.#mustBeAbleToPromise(sizeBytes - volume.sizeBytes);
      const grown = { ...volume, sizeBytes };
      // LVM only records the new size: to change the device it would suspend the whole pool.
      await this.group.execute(
        ['lvextend', '--yes', '--driverloaded', 'n', '--size', `${sizeBytes}b`, this.path(volume.name)],
        { steps: 1, apply: () => this.group.put(grown, 0n) },
      );
    }
    await this.#growDevice(this.mustHave(volume.name)); // also completes a growth that a crash interrupted
  }

  async #makeSnapshot(source: VolumeId, wanted: NewSnapshot): Promise<void> {
    const origin = this.mustHaveWhole(source);
    // A snapshot may request the size that was requested for its source: both are rounded up alike.
    const wantedBytes = this.#rounded(wanted.sizeBytes ?? origin.sizeBytes);
    if (wantedBytes < origin.sizeBytes) throw new SnapshotTooSmall(wanted.id, origin.sizeBytes, wantedBytes);
    await this.#mustBeAbleToPromise(wantedBytes);
    // LVM would not activate thin snapshots at the next boot.
    const words = [
      ...this.snapshotWords(origin, wanted),
      ...['--addtag', unfinishedTag],
      ...['--setactivationskip', 'n', this.path(source)],
    ];
    await this.#lvcreate(words, askLvm);
  }

  /** From here on, the tags inherited from the source count as those of the copy. */
  async #finish(snapshot: LogicalVolume): Promise<void> {
    if (!snapshot.tags.includes(unfinishedTag)) return;
    await changeTags(this.group, snapshot, { add: [], remove: [unfinishedTag] });
  }

  /** Grows a device that is smaller than its size in LVM. */
  async #growDevice(volume: LogicalVolume): Promise<void> {
    if (!(await this.#isTooSmall(volume))) return;
    const { name, sizeBytes } = volume;
    try {
      const readOnly = isReadOnly(volume);
      await growThinDevice(this.group.lvm, { group: this.group.name, volume: name, sizeBytes, readOnly });
    } catch (error) {
      this.log.warn(
        { err: error, volume: name },
        `cannot grow volume ${name} with dmsetup; LVM suspends the whole thin pool instead: ${messageOf(error)}`,
      );
      await this.group.lvm.execute(['lvchange', '--yes', '--refresh', this.path(name)]);
    }
    if (await this.#isTooSmall(volume)) {
      throw new ThinDeviceOdd(`the device of volume ${name} did not grow; run lvchange --refresh, then retry`);
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

/** Rounded down, and exact beyond the precision of a double. */
function scaled(bytes: bigint, ratio: number): bigint {
  const parts = 1_000_000n;
  return (bytes * BigInt(Math.round(ratio * Number(parts)))) / parts;
}
