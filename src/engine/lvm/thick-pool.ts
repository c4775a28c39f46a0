import { CommandFailed } from '../../base/exec.ts';
import type { ThickClass } from '../config/device-classes.ts';
import { NoRoomForLayout, PoolFull, SnapshotTooSmall, SnapshotUnsupported, VolumeBeingCopied } from '../errors.ts';
import type { Capacity, NewSnapshot, NewVolume, PoolSettings, Volume, VolumeId } from '../pool.ts';
import { contentTags, copiedTag, recordsUse, sourceIn, sourceTag, unusedTag } from '../tags.ts';
import { type CopyDevice, copyDevice, VolumeCopies } from '../volume-copies.ts';
import { askLvm, type Effect } from './effect.ts';
import { layoutOf, plainLayout, usableExtents } from './layout.ts';
import { LvmPool, type LvmPoolOptions } from './lvm-pool.ts';
import { extentsFor, isReadOnly, type LogicalVolume, layoutArguments, parseLayout } from './report.ts';
import { toVolume } from './to-volume.ts';
import { changeTags } from './volume-group.ts';

export interface ThickPoolOptions extends LvmPoolOptions<ThickClass> {
  readonly copyDevice?: CopyDevice;
}

/** Volumes with all their space allocated up front. One LVM command creates one, one removes it. */
export class ThickPool extends LvmPool<ThickClass> {
  readonly #copies: VolumeCopies;
  readonly #copyDevice: CopyDevice;

  private constructor({ copyDevice: copies, ...options }: ThickPoolOptions) {
    super(options);
    this.#copies = new VolumeCopies(this.log);
    this.#copyDevice = copies ?? copyDevice;
  }

  static async open(options: ThickPoolOptions, signal: AbortSignal): Promise<ThickPool> {
    const pool = new ThickPool(options);
    await pool.resume(signal);
    pool.#tellIfLayoutUnknown();
    return pool;
  }

  /** Free space is the largest volume that fits, with the mirrors or parity of the class. */
  capacity(): Capacity {
    return { sizeBytes: this.group.sizeBytes, freeBytes: this.#freeBytes(this.#options()) };
  }

  override reconfigure(settings: PoolSettings): void {
    super.reconfigure(settings);
    this.#tellIfLayoutUnknown();
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.group.change(signal, async () => {
      const volume = this.mustHave(id);
      if (volume.sizeBytes < sizeBytes) await this.#grow(volume, sizeBytes);
      return toVolume(this.mustHave(id));
    });
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    const { copy, made } = await this.group.change(signal, async () => {
      const isBegun = this.#copies.get(wanted.id) ?? (await this.madeSnapshot(source, wanted));
      if (!isBegun) await this.#makeSnapshot(source, wanted);
      return { copy: this.#copies.get(wanted.id), made: toVolume(this.mustHave(wanted.id)) };
    });
    if (!copy) return made;
    await this.#copies.join(copy, signal);
    return this.group.change(signal, async () => {
      await this.madeSnapshot(source, wanted); // the copy that we waited for may be one of another source
      return toVolume(this.mustHave(wanted.id));
    });
  }

  /** Refuses early: LVM would retry for seconds while all others wait. */
  override async remove(id: VolumeId, signal: AbortSignal): Promise<boolean> {
    const reader = this.#copies.readerOf(id);
    if (reader !== undefined) throw new VolumeBeingCopied(id, reader);
    return super.remove(id, signal);
  }

  override async stop(graceMs: number): Promise<void> {
    await this.#copies.stop();
    await super.stop(graceMs);
  }

  protected owns({ path, pool }: LogicalVolume): boolean {
    return path !== '' && pool === undefined;
  }

  /**
   * LVM first creates the store of a copy-on-write snapshot as a plain volume under the final name, then turns it into
   * the snapshot. A crash in between leaves a plain volume with none of the data. A full copy is complete once it has
   * its tag.
   */
  protected isWhole({ origin, tags }: LogicalVolume): boolean {
    return sourceIn(tags) === undefined || origin !== undefined || tags.includes(copiedTag);
  }

  protected async make(wanted: NewVolume, requested: readonly string[]): Promise<void> {
    const isNew = sourceIn(requested) === undefined && recordsUse(requested);
    const tags = isNew ? [...requested, unusedTag] : requested;
    const ownOptions = this.optionsFor(wanted);
    const { stripes, lvcreateOptions } = this.deviceClass;
    const options = ownOptions ?? this.#options();
    const extents = extentsFor(wanted.sizeBytes, this.group.extentBytes, ownOptions ? 1 : stripes);
    this.#mustFit(extents, options);
    const words = [
      'lvcreate',
      '--yes', // nobody can answer a prompt
      ...['--name', wanted.id, '--extents', String(extents)],
      ...['--wipesignatures', 'y', '--zero', 'y'], // old data on the disk must not look like data of this volume
      ...tags.flatMap((tag) => ['--addtag', tag]),
      ...options,
      this.group.name,
    ];
    // With mirrors or other options, only LVM knows how many extents a volume takes.
    const isPlain = ownOptions === undefined && lvcreateOptions.length === 0;
    if (isPlain)
      return this.#place(words, { steps: 1, apply: () => this.#put(wanted.id, extents, tags) }, extents, options);
    await this.#place(words, askLvm, extents, options);
    await this.#giveBackIfSpareIsTouched(wanted);
  }

  /** The volume is new and empty, so it can be removed safely. */
  async #giveBackIfSpareIsTouched({ id, sizeBytes }: NewVolume): Promise<void> {
    const { freeBytes } = this.group;
    if (freeBytes >= this.deviceClass.spareBytes) return;
    await this.group.execute(['lvremove', '--yes', this.path(id)], askLvm);
    throw new PoolFull(this.name, sizeBytes, this.capacity().freeBytes);
  }

  async #grow(volume: LogicalVolume, sizeBytes: bigint): Promise<void> {
    this.group.mustHaveNoSnapshots(volume.name);
    if (volume.origin !== undefined) {
      throw new SnapshotUnsupported(
        `cannot grow ${volume.name}: a copy-on-write snapshot keeps the size of its origin`,
      );
    }
    // A volume keeps the stripes it was created with. If they differ within it, only LVM knows the result.
    const stripes = volume.attr.startsWith('-') ? volume.stripes : undefined;
    const isPlain = stripes !== undefined;
    const extents = extentsFor(sizeBytes, this.group.extentBytes, stripes ?? this.deviceClass.stripes);
    const added = extents - volume.sizeBytes / this.group.extentBytes;
    this.#mustFit(isPlain ? added : await this.#takenBy(volume, added));
    const words = ['lvextend', '--yes', '--extents', String(extents), this.path(volume.name)];
    const grown = { ...volume, sizeBytes: extents * this.group.extentBytes };
    const effect = isPlain ? { steps: 1, apply: () => this.group.put(grown, added) } : askLvm;
    await this.#place(words, effect, added);
  }

  /** How many extents on the disks a growth by `extents` takes, with mirrors or parity. */
  async #takenBy({ name }: LogicalVolume, extents: bigint): Promise<bigint> {
    return parseLayout(await this.group.lvm.execute(layoutArguments(this.group.name, name)))(extents);
  }

  /** Only LVM sees that the free extents are on too few disks, or that somebody else took them. */
  async #place(
    words: readonly string[],
    effect: Effect | typeof askLvm,
    extents: bigint,
    options: readonly string[] = [],
  ): Promise<void> {
    try {
      await this.group.execute(words, effect);
    } catch (error) {
      const isFull = error instanceof CommandFailed && /insufficient|not enough/i.test(error.stderr);
      if (!isFull) throw error;
      this.#mustFit(extents, options);
      const wantedBytes = extents * this.group.extentBytes;
      throw new NoRoomForLayout(this.name, wantedBytes, this.#freeBytes(options), { cause: error });
    }
  }

  /** The snapshot gets as much space as its origin, so it can never overflow and become invalid. */
  async #makeSnapshot(source: VolumeId, wanted: NewSnapshot): Promise<void> {
    const origin = this.mustHaveWhole(source);
    if (this.deviceClass.snapshots === 'none') {
      throw new SnapshotUnsupported(
        `device class ${this.name} does not support snapshots; set snapshots: copy-on-write, or use a thin device class`,
      );
    }
    const wantedBytes = wanted.sizeBytes === undefined ? origin.sizeBytes : this.#rounded(wanted.sizeBytes);
    if (wantedBytes < origin.sizeBytes) throw new SnapshotTooSmall(wanted.id, origin.sizeBytes, wantedBytes);
    if (origin.origin !== undefined) {
      if (wanted.access === 'rw' && isReadOnly(origin)) return this.#beginCopy(origin, wanted, wantedBytes);
      throw new SnapshotUnsupported(
        `${source} is a copy-on-write snapshot itself; create a snapshot of ${origin.origin}, or use a thin device class`,
      );
    }
    if (wantedBytes > origin.sizeBytes) {
      throw new SnapshotUnsupported(
        `a copy-on-write snapshot cannot be larger than ${source}; request the same size, or use a thin device class`,
      );
    }
    this.#mustFit(snapshotExtents(origin.sizeBytes, this.group.extentBytes));
    const words = [...this.snapshotWords(origin, wanted), '--extents', '100%ORIGIN', this.path(source)];
    await this.#place(words, askLvm, snapshotExtents(origin.sizeBytes, this.group.extentBytes));
  }

  /** LVM cannot create a snapshot of a snapshot. A read-only one can be copied into a volume of its own instead. */
  async #beginCopy(source: LogicalVolume, { id, tags }: NewSnapshot, sizeBytes: bigint): Promise<void> {
    const all = [...new Set([...tags, ...contentTags(source.tags), sourceTag(source.name)])];
    await this.make({ id, sizeBytes, tags }, all);
    const { path } = this.mustHave(id);
    this.#copies.begin({ id, source: source.name, sizeBytes: source.sizeBytes }, async (options) => {
      await this.#copyDevice(source.path, path, options);
      await this.group.changeSurely(options.signal, () =>
        changeTags(this.group, this.mustHave(id), { add: [copiedTag], remove: [] }),
      );
    });
  }

  /** Rounded as at creation: a copy may request the size that was requested for its source. */
  #rounded(sizeBytes: bigint): bigint {
    const { extentBytes } = this.group;
    return extentsFor(sizeBytes, extentBytes, this.deviceClass.stripes) * extentBytes;
  }

  /** `extents` are those of a volume with these options; without options, extents on the disks. */
  #mustFit(extents: bigint, options: readonly string[] = []): void {
    const freeBytes = this.#freeBytes(options);
    const wantedBytes = extents * this.group.extentBytes;
    if (wantedBytes > freeBytes) throw new PoolFull(this.name, wantedBytes, freeBytes);
  }

  /** The lvcreate options of the class. */
  #options(): readonly string[] {
    const { stripes, stripeSize, lvcreateOptions } = this.deviceClass;
    return [
      ...(stripes > 0 ? ['--stripes', String(stripes)] : []),
      ...(stripes > 0 && stripeSize ? ['--stripesize', stripeSize] : []),
      ...lvcreateOptions,
    ];
  }

  /** The largest volume with these options, if the free extents are on the right disks. */
  #freeBytes(options: readonly string[]): bigint {
    const { freeBytes, extentBytes } = this.group;
    const unspared = freeBytes - this.deviceClass.spareBytes;
    if (unspared <= 0n) return 0n;
    const layout = layoutOf(options) ?? plainLayout;
    return layout === plainLayout ? unspared : usableExtents(layout, unspared / extentBytes) * extentBytes;
  }

  #tellIfLayoutUnknown(): void {
    if (layoutOf(this.#options())) return;
    this.log.warn(
      { lvcreateOptions: this.deviceClass.lvcreateOptions },
      `cannot determine the mirrors or parity of device class ${this.name}; all free space counts as its capacity; ` +
        'write the lvcreate options --type, --mirrors and --stripes in full',
    );
  }

  #put(id: VolumeId, extents: bigint, tags: readonly string[]): void {
    const volume: LogicalVolume = {
      name: id,
      path: `/dev/${this.group.name}/${id}`,
      sizeBytes: extents * this.group.extentBytes,
      attr: '-wi-a-----',
      active: true,
      tags,
      origin: undefined,
      pool: undefined,
      dataPercent: undefined,
      metadataPercent: undefined,
      stripes: Math.max(1, this.deviceClass.stripes),
    };
    this.group.put(volume, extents);
  }
}

/** LVM's default: each changed chunk of 4 KiB takes 4 KiB and 16 bytes of metadata, and the header one more chunk. */
export function snapshotExtents(originBytes: bigint, extentBytes: bigint): bigint {
  const chunkBytes = 4096n;
  const chunks = (originBytes + chunkBytes - 1n) / chunkBytes;
  const perArea = chunkBytes / 16n;
  const areas = chunks / perArea + 1n;
  return extentsFor((1n + areas + chunks) * chunkBytes, extentBytes);
}
