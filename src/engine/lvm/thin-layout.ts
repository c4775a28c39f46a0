import type { Clock, Timer } from '../../base/clock.ts';
import { deviceSizeBytes } from '../../base/device-number.ts';
import { messageOf } from '../../base/errors.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import type { Log } from '../../base/log.ts';
import type { Checkpoints } from '../changes/checkpoint-tracking.ts';
import { type DeviceClass, detailsOf, type ThinClass } from '../config/device-classes.ts';
import { mustAllowThinSnapshots } from '../erase/erasable.ts';
import { policyOnRemoval } from '../erase/erasure-tags.ts';
import { PoolFull, PoolMissing, SnapshotTooSmall, ThinPoolFilling } from '../errors.ts';
import { checkpointedIn, unfinishedTag } from '../names-and-tags.ts';
import type { Capacity, NewSnapshot, NewVolume, PoolDetails, ThinCapacity, VolumeId } from '../pool.ts';
import type { ClassVolumes } from './class-volumes.ts';
import { extentsFor } from './extents.ts';
import { askLvm, type Effect } from './group-memory.ts';
import { type Layout, type RemoveVolume, snapshotArguments } from './layout.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import { ThinCheckpoints } from './thin-checkpoints.ts';
import { growThinDevice, removedThinOrphan, ThinDeviceUnexpected } from './thin-device.ts';
import type { VolumeGroup } from './volume-group.ts';

export interface ThinLayoutOptions {
  readonly deviceClass: ThinClass;
  readonly volumes: ClassVolumes;
  readonly group: VolumeGroup;
  readonly clock: Clock;
  readonly log: Log;
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
export class ThinLayout implements Layout {
  readonly #volumes: ClassVolumes;
  readonly #group: VolumeGroup;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #deviceSize: typeof deviceSizeBytes;
  readonly #metadataLock = new KeyedLock();
  #class: ThinClass;
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  #nextMeasurement: Timer | undefined;
  #forgetChanges: (() => void) | undefined;
  #isStopped = false;

  constructor({ deviceClass, volumes, group, clock, log, deviceSize }: ThinLayoutOptions) {
    this.#class = deviceClass;
    this.#volumes = volumes;
    this.#group = group;
    this.#clock = clock;
    this.#log = log;
    this.#deviceSize = deviceSize ?? deviceSizeBytes;
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#prepare(signal);
    this.#forgetChanges = this.#group.onChange(() => this.#watchUsage());
    this.#watchUsage();
  }

  reconfigure(deviceClass: DeviceClass): void {
    if (deviceClass.type === 'thin') this.#class = deviceClass;
    this.#watchUsage(); // the limits may have changed
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#forgetChanges?.();
    this.#nextMeasurement?.cancel();
  }

  capacity(): Capacity {
    const thin = this.#thinCapacity();
    const freeBytes = this.#danger(thin) ? 0n : thin.overprovisionBytes;
    return { sizeBytes: thin.sizeBytes, freeBytes, thin };
  }

  details(): PoolDetails {
    const thin = this.#thinCapacity();
    const problem = this.#danger(thin)?.message;
    const usedBytes = scaled(thin.sizeBytes, thin.dataPercent / 100);
    return { ...detailsOf(this.#class), usedBytes, ...(problem !== undefined && { problem }) };
  }

  async create(wanted: NewVolume, tags: readonly string[], ownOptions: readonly string[] | undefined): Promise<void> {
    const sizeBytes = this.#rounded(wanted.sizeBytes);
    await this.#mustBeAbleToPromise(sizeBytes);
    const words = [
      ...['lvcreate', '--yes', '--name', wanted.id],
      ...['--virtualsize', `${sizeBytes}b`, '--thinpool', this.#class.thinPool.name],
      ...['--wipesignatures', 'n'], // unwritten space reads as zeros
      ...tags.flatMap((tag) => ['--addtag', tag]),
      ...(ownOptions ?? this.#class.lvcreateOptions),
      this.#group.name,
    ];
    const volume = this.#newVolume(wanted.id, sizeBytes, tags);
    await this.#lvcreate(words, { steps: 2, apply: (memory) => memory.put(volume) });
  }

  async grow(volume: LogicalVolume, wantedBytes: bigint): Promise<void> {
    const sizeBytes = this.#rounded(wantedBytes);
    if (volume.sizeBytes < sizeBytes) {
      this.#group.memory.mustNotBeMoving(volume.name);
      await this.#mustBeAbleToPromise(sizeBytes - volume.sizeBytes);
      const grown = { ...volume, sizeBytes };
      // LVM only records the new size: to change the device it would suspend the whole pool.
      await this.#group.execute(
        ['lvextend', '--yes', '--driverloaded', 'n', '--size', `${sizeBytes}b`, this.#group.fullName(volume.name)],
        { steps: 1, apply: (memory) => memory.put(grown) },
      );
    }
    await this.#growDevice(this.#volumes.mustHave(volume.name)); // also completes a growth that a crash interrupted
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<LogicalVolume> {
    mustAllowThinSnapshots(`device class ${this.#class.name}`, this.#class.erase);
    return this.#group.changeSurely(signal, async () => {
      if (!(await this.#volumes.createdEarlier(wanted, source))) await this.#createSnapshot(source, wanted);
      const snapshot = this.#volumes.mustHave(wanted.id);
      await this.grow(snapshot, wanted.sizeBytes ?? snapshot.sizeBytes); // an earlier call may have used another size
      await this.#finish(this.#volumes.mustHave(wanted.id));
      return this.#volumes.mustHave(wanted.id);
    });
  }

  checkpoints(volume: VolumeId, remove: RemoveVolume): Checkpoints {
    const [volumes, group, lock] = [this.#volumes, this.#group, this.#metadataLock];
    return new ThinCheckpoints({
      ...{ volume, volumes, group, lock, remove, log: this.#log },
      pool: this.#class.thinPool.name,
      mustHaveRoom: async () => {
        mustAllowThinSnapshots(`device class ${this.#class.name}`, this.#class.erase);
        mustAllowThinSnapshots(`volume ${volume}`, policyOnRemoval(volumes.mustHave(volume).tags, { kind: 'none' }));
        await this.#mustBeAbleToPromise(0n); // it exists for a short time, so its size does not count as promised
      },
      lvcreate: (words) => this.#lvcreate(words, askLvm),
    });
  }

  /** A thin snapshot shares blocks with its source, and needs no copy. */
  mustNotBeBeingCopied(): void {}

  async #lvcreate(words: readonly string[], effect: Effect | typeof askLvm): Promise<void> {
    try {
      await this.#group.execute(words, effect);
    } catch (error) {
      if (!(await removedThinOrphan(this.#group, this.#class.thinPool.name, error, this.#log))) throw error;
      await this.#group.execute(words, effect);
    }
  }

  /** Keeps the pool active: LVM would deactivate it without active volumes, and check it at each activation. */
  async #prepare(signal: AbortSignal): Promise<void> {
    await this.#group.change(signal, async () => {
      const { name, active } = this.#pool();
      if (!active)
        await this.#group.lvm.activate(['lvchange', '--yes', '--activate', 'y', this.#group.fullName(name)], signal);
      for (const volume of this.#volumes.all().filter(({ active }) => active)) {
        try {
          await this.#growDevice(volume);
        } catch (error) {
          this.#log.error(
            { err: error, volume: volume.name },
            `volume ${volume.name} is smaller than its size in LVM: ${messageOf(error)}`,
          );
        }
      }
    });
  }

  #pool(): LogicalVolume {
    const { name } = this.#class.thinPool;
    const pool = this.#group.memory.get(name);
    if (pool?.attr.startsWith('t')) return pool;
    throw new PoolMissing(
      `volume group ${this.#group.name} has no thin pool ${name} for device class ${this.#class.name}; create it, or correct thin-pool.name`,
    );
  }

  #thinCapacity(): ThinCapacity {
    const pool = this.#group.memory.get(this.#class.thinPool.name);
    const sizeBytes = pool?.sizeBytes ?? 0n;
    const promised = this.#volumes.all().filter(({ tags }) => !checkpointedIn(tags));
    const promisedBytes = promised.reduce((sum, volume) => sum + volume.sizeBytes, 0n);
    const left = scaled(sizeBytes, this.#class.thinPool.overprovisionRatio) - promisedBytes;
    return {
      sizeBytes,
      dataPercent: pool?.dataPercent ?? 0,
      metadataPercent: pool?.metadataPercent ?? 0,
      overprovisionBytes: left > 0n ? left : 0n,
    };
  }

  #danger({ dataPercent, metadataPercent }: ThinCapacity): ThinPoolFilling | undefined {
    const { maxDataPercent, maxMetadataPercent, name } = this.#class.thinPool;
    const path = this.#group.fullName(name);
    if (dataPercent > maxDataPercent) return new ThinPoolFilling(path, 'data', dataPercent, maxDataPercent);
    if (metadataPercent > maxMetadataPercent) {
      return new ThinPoolFilling(path, 'metadata', metadataPercent, maxMetadataPercent);
    }
    return undefined;
  }

  /** Keeps the reported usage current, well before the pool is full. */
  #watchUsage(): void {
    const { maxDataPercent, maxMetadataPercent } = this.#class.thinPool;
    const { dataPercent, metadataPercent } = this.#thinCapacity();
    const isFilling = dataPercent > maxDataPercent / 2 || metadataPercent > maxMetadataPercent / 2;
    if (!isFilling || this.#nextMeasurement || this.#isStopped) return;
    this.#nextMeasurement = this.#clock.setTimer(() => void this.#measureAgain(), watchEveryMs);
  }

  async #measureAgain(): Promise<void> {
    try {
      await this.#group.measureByKernel(this.#class.thinPool.name);
      this.#measuredAtMs = this.#clock.monotonic();
    } catch (error) {
      this.#log.warn({ err: error }, `cannot read the usage of the thin pool with dmsetup: ${messageOf(error)}`);
    }
    this.#nextMeasurement = undefined;
    this.#watchUsage();
  }

  async #mustBeAbleToPromise(sizeBytes: bigint): Promise<void> {
    if (this.#clock.monotonic() - this.#measuredAtMs > usageAgeMs) {
      await this.#group.measure(this.#pool());
      this.#measuredAtMs = this.#clock.monotonic();
    }
    const thin = this.#thinCapacity();
    const danger = this.#danger(thin);
    if (danger) throw danger;
    if (sizeBytes > thin.overprovisionBytes) throw new PoolFull(this.#class.name, sizeBytes, thin.overprovisionBytes);
  }

  async #createSnapshot(source: VolumeId, wanted: NewSnapshot): Promise<void> {
    const origin = this.#volumes.mustHaveWhole(source);
    mustAllowThinSnapshots(`volume ${source}`, policyOnRemoval(origin.tags, { kind: 'none' }));
    // A snapshot may request the size that was requested for its source: both are rounded up alike.
    const wantedBytes = this.#rounded(wanted.sizeBytes ?? origin.sizeBytes);
    if (wantedBytes < origin.sizeBytes) throw new SnapshotTooSmall(wanted.id, origin.sizeBytes, wantedBytes);
    await this.#mustBeAbleToPromise(wantedBytes);
    // LVM would not activate thin snapshots at the next boot.
    const words = [
      ...snapshotArguments(origin, wanted),
      ...['--addtag', unfinishedTag],
      ...['--setactivationskip', 'n', this.#group.fullName(source)],
    ];
    await this.#lvcreate(words, askLvm);
  }

  /** From here on, the tags inherited from the source count as those of the copy. */
  async #finish(snapshot: LogicalVolume): Promise<void> {
    if (!snapshot.tags.includes(unfinishedTag)) return;
    const tags = snapshot.tags.filter((tag) => tag !== unfinishedTag);
    await this.#group.setTags(snapshot, tags);
  }

  /** Grows a device that is smaller than its size in LVM. */
  async #growDevice(volume: LogicalVolume): Promise<void> {
    if (!(await this.#isTooSmall(volume))) return;
    const { name, sizeBytes } = volume;
    try {
      const readOnly = isReadOnly(volume);
      await growThinDevice(this.#group.lvm, { group: this.#group.name, volume: name, sizeBytes, readOnly });
    } catch (error) {
      this.#log.warn(
        { err: error, volume: name },
        `cannot grow volume ${name} with dmsetup; LVM suspends the whole thin pool instead: ${messageOf(error)}`,
      );
      await this.#group.lvm.execute(['lvchange', '--yes', '--refresh', this.#group.fullName(name)]);
    }
    if (await this.#isTooSmall(volume)) {
      throw new ThinDeviceUnexpected(`the device of volume ${name} did not grow; run lvchange --refresh, then retry`);
    }
  }

  async #isTooSmall({ path, sizeBytes }: LogicalVolume): Promise<boolean> {
    const presentBytes = await this.#deviceSize(path);
    return presentBytes !== undefined && presentBytes < sizeBytes;
  }

  #rounded(sizeBytes: bigint): bigint {
    return extentsFor(sizeBytes, this.#group.memory.extentBytes) * this.#group.memory.extentBytes;
  }

  #newVolume(id: VolumeId, sizeBytes: bigint, tags: readonly string[]): LogicalVolume {
    return {
      name: id,
      path: `/dev/${this.#group.name}/${id}`,
      sizeBytes,
      attr: 'Vwi-a-tz--',
      active: true,
      tags,
      origin: undefined,
      pool: this.#class.thinPool.name,
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
