import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { Checkpoints } from '../changes/checkpoint-tracking.ts';
import { type DeviceClass, detailsOf, type ThickClass } from '../config/device-classes.ts';
import { NoRoomForLayout, PoolFull, SnapshotTooSmall, SnapshotUnsupported, VolumeBeingCopied } from '../errors.ts';
import { copiedTag } from '../names-and-tags.ts';
import type { Capacity, NewSnapshot, NewVolume, PoolDetails, VolumeId } from '../pool.ts';
import { type CopyDevice, copyDevice, VolumeCopies } from '../volume-copies.ts';
import type { ClassVolumes } from './class-volumes.ts';
import { extentsFor, noRedundancy, redundancyOf, snapshotExtents, usableExtents } from './extents.ts';
import { askLvm, type Effect } from './group-memory.ts';
import { copyTags, type Layout, type RemoveVolume, snapshotArguments } from './layout.ts';
import { isReadOnly, type LogicalVolume, parseRedundancy, redundancyArguments } from './report.ts';
import { ThickCheckpoints } from './thick-checkpoints.ts';
import type { VolumeGroup } from './volume-group.ts';

export interface ThickLayoutOptions {
  readonly deviceClass: ThickClass;
  readonly volumes: ClassVolumes;
  readonly group: VolumeGroup;
  readonly log: Log;
  readonly copyDevice?: CopyDevice;
}

/** Volumes with all their space allocated up front. One LVM command creates one, one removes it. */
export class ThickLayout implements Layout {
  readonly #volumes: ClassVolumes;
  readonly #group: VolumeGroup;
  readonly #log: Log;
  readonly #copies: VolumeCopies;
  readonly #copyDevice: CopyDevice;
  #class: ThickClass;

  constructor({ deviceClass, volumes, group, log, copyDevice: copy }: ThickLayoutOptions) {
    this.#class = deviceClass;
    this.#volumes = volumes;
    this.#group = group;
    this.#log = log;
    this.#copies = new VolumeCopies(log);
    this.#copyDevice = copy ?? copyDevice;
  }

  async start(): Promise<void> {
    this.#warnIfRedundancyUnknown();
  }

  reconfigure(deviceClass: DeviceClass): void {
    if (deviceClass.type === 'thick') this.#class = deviceClass;
    this.#warnIfRedundancyUnknown();
  }

  async stop(): Promise<void> {
    await this.#copies.stop();
  }

  /** Free space is the largest volume that fits, with the mirrors or parity of the class. */
  capacity(): Capacity {
    return { sizeBytes: this.#group.memory.sizeBytes, freeBytes: this.#freeBytes(this.#options()) };
  }

  details(): PoolDetails {
    const { sizeBytes, freeBytes } = this.#group.memory;
    return { ...detailsOf(this.#class), usedBytes: sizeBytes - freeBytes };
  }

  async create(wanted: NewVolume, tags: readonly string[], ownOptions: readonly string[] | undefined): Promise<void> {
    const { stripes, lvcreateOptions } = this.#class;
    const options = ownOptions ?? this.#options();
    const extents = extentsFor(wanted.sizeBytes, this.#group.memory.extentBytes, ownOptions ? 1 : stripes);
    this.#mustFit(extents, options);
    const words = [
      'lvcreate',
      '--yes', // nobody can answer a prompt
      ...['--name', wanted.id, '--extents', String(extents)],
      ...['--wipesignatures', 'y', '--zero', 'y'], // old data on the disk must not look like data of this volume
      ...tags.flatMap((tag) => ['--addtag', tag]),
      ...options,
      this.#group.name,
    ];
    // With mirrors or other options, only LVM knows how many extents a volume takes.
    const isPlain = ownOptions === undefined && lvcreateOptions.length === 0;
    if (isPlain) return this.#place(words, this.#effectOfCreating(wanted.id, extents, tags), extents, options);
    await this.#place(words, askLvm, extents, options);
    await this.#giveBackIfSpareIsTouched(wanted);
  }

  async grow(volume: LogicalVolume, sizeBytes: bigint): Promise<void> {
    if (volume.sizeBytes >= sizeBytes) return;
    this.#group.memory.mustHaveNoSnapshots(volume.name);
    if (volume.origin !== undefined) {
      throw new SnapshotUnsupported(
        `cannot grow ${volume.name}: a copy-on-write snapshot keeps the size of its origin`,
      );
    }
    // A volume keeps the stripes it was created with. If they differ within it, only LVM knows the result.
    const stripes = volume.attr.startsWith('-') ? volume.stripes : undefined;
    const isPlain = stripes !== undefined;
    const extents = extentsFor(sizeBytes, this.#group.memory.extentBytes, stripes ?? this.#class.stripes);
    const added = extents - volume.sizeBytes / this.#group.memory.extentBytes;
    this.#mustFit(isPlain ? added : await this.#takenBy(volume, added));
    const words = ['lvextend', '--yes', '--extents', String(extents), this.#group.fullName(volume.name)];
    const grown = { ...volume, sizeBytes: extents * this.#group.memory.extentBytes };
    const effect: Effect = { steps: 1, apply: (memory) => memory.put(grown, added) };
    await this.#place(words, isPlain ? effect : askLvm, added);
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<LogicalVolume> {
    const { copy, created } = await this.#group.change(signal, async () => {
      const isBegun = this.#copies.get(wanted.id) ?? (await this.#volumes.createdEarlier(wanted, source));
      if (!isBegun) await this.#createSnapshot(source, wanted);
      return { copy: this.#copies.get(wanted.id), created: this.#volumes.mustHave(wanted.id) };
    });
    if (!copy) return created;
    await this.#copies.join(copy, signal);
    return this.#group.change(signal, async () => {
      await this.#volumes.createdEarlier(wanted, source); // the copy that we waited for may be one of another source
      return this.#volumes.mustHave(wanted.id);
    });
  }

  checkpoints(volume: VolumeId, remove: RemoveVolume): Checkpoints {
    const [volumes, group] = [this.#volumes, this.#group];
    return new ThickCheckpoints({
      ...{ volume, volumes, group, remove },
      deviceClass: () => this.#class,
      freeBytes: () => this.#freeBytes([]),
    });
  }

  mustNotBeBeingCopied(id: VolumeId): void {
    const reader = this.#copies.readerOf(id);
    if (reader !== undefined) throw new VolumeBeingCopied(id, reader);
  }

  /** The volume is new and empty, so it can be removed safely. */
  async #giveBackIfSpareIsTouched({ id, sizeBytes }: NewVolume): Promise<void> {
    const { freeBytes } = this.#group.memory;
    if (freeBytes >= this.#class.spareBytes) return;
    await this.#group.execute(['lvremove', '--yes', this.#group.fullName(id)], askLvm);
    throw new PoolFull(this.#class.name, sizeBytes, this.capacity().freeBytes);
  }

  /** How many extents on the disks a growth by `extents` takes, with mirrors or parity. */
  async #takenBy({ name }: LogicalVolume, extents: bigint): Promise<bigint> {
    return parseRedundancy(await this.#group.lvm.execute(redundancyArguments(this.#group.name, name)))(extents);
  }

  /** Only LVM sees that the free extents are on too few disks, or that somebody else took them. */
  async #place(
    words: readonly string[],
    effect: Effect | typeof askLvm,
    extents: bigint,
    options: readonly string[] = [],
  ): Promise<void> {
    try {
      await this.#group.execute(words, effect);
    } catch (error) {
      const isFull = error instanceof CommandFailed && /insufficient|not enough/i.test(error.stderr);
      if (!isFull) throw error;
      this.#mustFit(extents, options);
      const wantedBytes = extents * this.#group.memory.extentBytes;
      throw new NoRoomForLayout(this.#class.name, wantedBytes, this.#freeBytes(options), { cause: error });
    }
  }

  /** The snapshot gets as much space as its origin, so it can never overflow and become invalid. */
  async #createSnapshot(source: VolumeId, wanted: NewSnapshot): Promise<void> {
    const origin = this.#volumes.mustHaveWhole(source);
    if (this.#class.snapshots === 'none') {
      throw new SnapshotUnsupported(
        `device class ${this.#class.name} does not support snapshots; set snapshots: copy-on-write, or use a thin device class`,
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
    this.#mustFit(snapshotExtents(origin.sizeBytes, this.#group.memory.extentBytes));
    const words = [...snapshotArguments(origin, wanted), '--extents', '100%ORIGIN', this.#group.fullName(source)];
    await this.#place(words, askLvm, snapshotExtents(origin.sizeBytes, this.#group.memory.extentBytes));
  }

  /** LVM cannot create a snapshot of a snapshot. A read-only one can be copied into a volume of its own instead. */
  async #beginCopy(source: LogicalVolume, { id, tags }: NewSnapshot, sizeBytes: bigint): Promise<void> {
    await this.create({ id, sizeBytes, tags }, copyTags(source, tags), undefined);
    const { path } = this.#volumes.mustHave(id);
    this.#copies.begin({ id, source: source.name, sizeBytes: source.sizeBytes }, async (options) => {
      await this.#copyDevice(source.path, path, options);
      await this.#group.changeSurely(options.signal, async () => {
        const copy = this.#volumes.mustHave(id);
        await this.#group.setTags(copy, [...copy.tags, copiedTag]);
      });
    });
  }

  /** Rounded as at creation: a copy may request the size that was requested for its source. */
  #rounded(sizeBytes: bigint): bigint {
    const { extentBytes } = this.#group.memory;
    return extentsFor(sizeBytes, extentBytes, this.#class.stripes) * extentBytes;
  }

  /** `extents` are those of a volume with these options; without options, extents on the disks. */
  #mustFit(extents: bigint, options: readonly string[] = []): void {
    const freeBytes = this.#freeBytes(options);
    const wantedBytes = extents * this.#group.memory.extentBytes;
    if (wantedBytes > freeBytes) throw new PoolFull(this.#class.name, wantedBytes, freeBytes);
  }

  /** The lvcreate options of the class. */
  #options(): readonly string[] {
    const { stripes, stripeSize, lvcreateOptions } = this.#class;
    return [
      ...(stripes > 0 ? ['--stripes', String(stripes)] : []),
      ...(stripes > 0 && stripeSize ? ['--stripesize', stripeSize] : []),
      ...lvcreateOptions,
    ];
  }

  /** The largest volume with these options, if the free extents are on the right disks. */
  #freeBytes(options: readonly string[]): bigint {
    const { freeBytes, extentBytes } = this.#group.memory;
    const unspared = freeBytes - this.#class.spareBytes;
    if (unspared <= 0n) return 0n;
    const redundancy = redundancyOf(options) ?? noRedundancy;
    return redundancy === noRedundancy ? unspared : usableExtents(redundancy, unspared / extentBytes) * extentBytes;
  }

  #warnIfRedundancyUnknown(): void {
    if (redundancyOf(this.#options())) return;
    this.#log.warn(
      { lvcreateOptions: this.#class.lvcreateOptions },
      `cannot determine the mirrors or parity of device class ${this.#class.name}; all free space counts as its capacity; ` +
        'write the lvcreate options --type, --mirrors and --stripes in full',
    );
  }

  #effectOfCreating(id: VolumeId, extents: bigint, tags: readonly string[]): Effect {
    const volume: LogicalVolume = {
      name: id,
      path: `/dev/${this.#group.name}/${id}`,
      sizeBytes: extents * this.#group.memory.extentBytes,
      attr: '-wi-a-----',
      active: true,
      tags,
      origin: undefined,
      pool: undefined,
      dataPercent: undefined,
      metadataPercent: undefined,
      stripes: Math.max(1, this.#class.stripes),
    };
    return { steps: 1, apply: (memory) => memory.put(volume, extents) };
  }
}
