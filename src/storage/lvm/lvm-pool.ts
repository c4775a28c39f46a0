import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import type { KeyedLock } from '../../base/keyed-lock.ts';
import type { Log } from '../../base/log.ts';
import { ChangeListeners } from '../change-listeners.ts';
import type { ThickClass } from '../device-classes.ts';
import { PoolFull, PoolMissing, SnapshotUnsupported, VolumeExists, VolumeInUse, VolumeNotFound } from '../errors.ts';
import type { Capacity, Erasure, NewVolume, Pool, Volume, VolumeId } from '../pool.ts';
import type { PoolSettings } from '../served-pool.ts';
import { createdTag } from '../tags.ts';
import { checkNewVolume, checkTags } from '../volume-id.ts';
import type { Lvm } from './lvm.ts';
import { parseReport, reportArguments, type VolumeGroup } from './report.ts';

export interface LvmPoolOptions {
  readonly deviceClass: ThickClass;
  readonly lvm: Lvm;
  /** By volume group: LVM lets one writer in at a time anyway, and what we check must still hold when we write. */
  readonly lock: KeyedLock;
  readonly log: Log;
}

/**
 * Thick volumes in one LVM volume group. What LVM knows is held in memory: read once, then kept by our own changes,
 * each of which is one LVM command. A command that fails leaves memory in doubt, so LVM is asked again.
 */
export class LvmPool implements Pool {
  readonly name: string;
  #class: ThickClass;
  readonly #lvm: Lvm;
  readonly #lock: KeyedLock;
  readonly #log: Log;
  readonly #listeners = new ChangeListeners();
  readonly #volumes = new Map<VolumeId, Volume>();
  #extentBytes = 0n;
  #extents = 0n;
  #freeExtents = 0n;
  #inDoubt = true;

  private constructor({ deviceClass, lvm, lock, log }: LvmPoolOptions) {
    this.name = deviceClass.name;
    this.#class = deviceClass;
    this.#lvm = lvm;
    this.#lock = lock;
    this.#log = log.child({ deviceClass: deviceClass.name, volumeGroup: deviceClass.volumeGroup });
  }

  /** Reads the volume group, and activates what a reboot left inactive. */
  static async open(options: LvmPoolOptions, signal: AbortSignal): Promise<LvmPool> {
    const pool = new LvmPool(options);
    const { inactive } = await pool.#reload(signal);
    if (inactive.length > 0) await pool.#activate(inactive, signal);
    return pool;
  }

  capacity(): Capacity {
    const unspared = this.#freeExtents * this.#extentBytes - this.#class.spareBytes;
    return { sizeBytes: this.#extents * this.#extentBytes, freeBytes: unspared > 0n ? unspared : 0n };
  }

  list(): readonly Volume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): Volume | undefined {
    return this.#volumes.get(id);
  }

  erasures(): readonly Erasure[] {
    return [];
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  reconfigure({ deviceClass }: PoolSettings): void {
    if (deviceClass.type === 'thick') this.#class = deviceClass;
    this.#listeners.notify();
  }

  async stop(): Promise<void> {}

  /** Asks LVM for what it has now. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#lock.run(this.#class.volumeGroup, signal, async () => void (await this.#reload(signal)));
  }

  async create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    checkNewVolume(wanted);
    return this.#change(signal, async () => {
      const existing = this.#volumes.get(wanted.id);
      if (existing && existing.sizeBytes >= wanted.sizeBytes) return existing;
      if (existing) throw new VolumeExists(this.name, wanted.id, existing.sizeBytes, wanted.sizeBytes);

      const extents = this.#extentsFor(wanted.sizeBytes);
      this.#mustFit(extents);
      const tags = [...wanted.tags, createdTag];
      await this.#execute(this.#creation(wanted.id, tags, extents)).catch((error: unknown) => {
        // Somebody else may have taken the space since we last looked; then that is the answer.
        if (error instanceof CommandFailed && !this.#volumes.has(wanted.id)) this.#mustFit(extents);
        throw error;
      });
      return this.#put({
        id: wanted.id,
        sizeBytes: extents * this.#extentBytes,
        devicePath: `/dev/${this.#class.volumeGroup}/${wanted.id}`,
        tags,
        readOnly: false,
        attr: '-wi-a-----',
      });
    });
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.#change(signal, async () => {
      const volume = this.#mustHave(id);
      if (volume.sizeBytes >= sizeBytes) return volume;
      const extents = this.#extentsFor(sizeBytes);
      this.#mustFit(extents - volume.sizeBytes / this.#extentBytes);
      await this.#execute(['lvextend', '--yes', '--extents', String(extents), this.#path(id)]);
      return this.#put({ ...volume, sizeBytes: extents * this.#extentBytes });
    });
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    checkTags(tags);
    return this.#change(signal, async () => {
      const volume = this.#mustHave(id);
      const missing = tags.filter((tag) => !volume.tags.includes(tag));
      if (missing.length === 0) return volume;
      await this.#execute(['lvchange', '--yes', ...missing.flatMap((tag) => ['--addtag', tag]), this.#path(id)]);
      return this.#put({ ...volume, tags: [...volume.tags, ...missing] });
    });
  }

  async snapshot(source: VolumeId): Promise<Volume> {
    throw new SnapshotUnsupported(
      `device class ${this.name} is thick and cannot copy ${source}; use a thin device class for snapshots`,
    );
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<void> {
    await this.#change(signal, async () => {
      // "Not there" is a promise that its space is free again: memory alone is not enough to give it.
      if (!this.#volumes.has(id)) await this.#reload(signal);
      const volume = this.#volumes.get(id);
      if (!volume) return;
      await this.#execute(['lvremove', '--yes', this.#path(id)]).catch((error: unknown) => {
        const inUse = error instanceof CommandFailed && / in use/.test(error.stderr);
        throw inUse ? new VolumeInUse(id, volume.devicePath, { cause: error }) : error;
      });
      this.#volumes.delete(id);
      this.#freeExtents += volume.sizeBytes / this.#extentBytes;
      this.#listeners.notify();
    });
  }

  /** One change at a time, on what is known to be so. */
  async #change<T>(signal: AbortSignal, change: () => Promise<T>): Promise<T> {
    return this.#lock.run(this.#class.volumeGroup, signal, async () => {
      if (this.#inDoubt) await this.#reload(signal);
      const result = await change();
      // With mirrors or other options of its own, only LVM knows what a volume takes.
      if (this.#class.lvcreateOptions.length > 0) await this.#settleDoubt();
      return result;
    });
  }

  /** A change that has begun is brought to its end: LVM killed half-way leaves volumes that are made but not yet wiped. */
  async #execute(args: readonly string[]): Promise<void> {
    try {
      await this.#lvm.execute(args, neverAborted);
    } catch (error) {
      await this.#settleDoubt();
      throw error;
    }
  }

  /** Finds out what is so now, whether or not the caller still waits; if that fails, before the next change. */
  async #settleDoubt(): Promise<void> {
    this.#inDoubt = true;
    try {
      await this.#reload(neverAborted);
    } catch (error) {
      this.#log.warn(
        { err: error },
        `cannot read the volume group, will try again before its next change: ${messageOf(error)}`,
      );
    }
  }

  async #reload(signal: AbortSignal): Promise<VolumeGroup> {
    const group = parseReport(await this.#report(signal));
    this.#extentBytes = group.extentBytes;
    this.#extents = group.extents;
    this.#freeExtents = group.freeExtents;
    this.#volumes.clear();
    for (const volume of group.volumes) this.#volumes.set(volume.id, volume);
    this.#inDoubt = false;
    this.#listeners.notify();
    return group;
  }

  async #report(signal: AbortSignal): Promise<string> {
    const { volumeGroup } = this.#class;
    try {
      return await this.#lvm.execute(reportArguments(volumeGroup), signal);
    } catch (error) {
      if (!(error instanceof CommandFailed) || !/Volume group ".*" not found/.test(error.stderr)) throw error;
      throw new PoolMissing(
        `volume group ${volumeGroup} of device class ${this.name} is not on this node; create it, or correct volume-group`,
        { cause: error },
      );
    }
  }

  /** A volume that cannot be activated (a disk is gone, say) must not keep all the others from being served. */
  async #activate(inactive: readonly VolumeId[], signal: AbortSignal): Promise<void> {
    try {
      await this.#lvm.execute(['vgchange', '--yes', '--activate', 'ay', this.#class.volumeGroup], signal);
    } catch (error) {
      this.#log.error({ err: error, inactive }, `some volumes have no device: ${messageOf(error)}`);
    }
  }

  #creation(id: VolumeId, tags: readonly string[], extents: bigint): string[] {
    const { stripes, stripeSize, lvcreateOptions, volumeGroup } = this.#class;
    return [
      'lvcreate',
      '--yes', // whatever LVM would ask, nobody is there to answer
      ...['--name', id, '--extents', String(extents)],
      ...['--wipesignatures', 'y', '--zero', 'y'], // what an earlier volume left here must not look like data of this one
      ...tags.flatMap((tag) => ['--addtag', tag]),
      ...(stripes > 0 ? ['--stripes', String(stripes)] : []),
      ...(stripes > 0 && stripeSize ? ['--stripesize', stripeSize] : []),
      ...lvcreateOptions,
      volumeGroup,
    ];
  }

  /** Rounded up to whole extents, and to as many on each stripe. */
  #extentsFor(sizeBytes: bigint): bigint {
    const extents = ceilDivide(sizeBytes, this.#extentBytes);
    const stripes = BigInt(Math.max(1, this.#class.stripes));
    return ceilDivide(extents, stripes) * stripes;
  }

  #mustFit(extents: bigint): void {
    const { freeBytes } = this.capacity();
    const wantedBytes = extents * this.#extentBytes;
    if (wantedBytes > freeBytes) throw new PoolFull(this.name, wantedBytes, freeBytes);
  }

  #mustHave(id: VolumeId): Volume {
    const volume = this.#volumes.get(id);
    if (!volume) throw new VolumeNotFound(this.name, id);
    return volume;
  }

  #put(volume: Volume): Volume {
    const before = this.#volumes.get(volume.id)?.sizeBytes ?? 0n;
    this.#freeExtents -= (volume.sizeBytes - before) / this.#extentBytes;
    this.#volumes.set(volume.id, volume);
    this.#listeners.notify();
    return volume;
  }

  #path(id: VolumeId): string {
    return `${this.#class.volumeGroup}/${id}`;
  }
}

/** For what goes on even if the caller has left; the deadline of each LVM command bounds it. */
const neverAborted = new AbortController().signal;

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
