import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import { erasureIn } from '../erase/erasure-tags.ts';
import { ErasureCancelled } from '../erase/erasures.ts';
import { VolumeBeingMoved, VolumeHasSnapshots } from '../errors.ts';
import { checkpointedIn, isEncrypted, sourceIn } from '../names-and-tags.ts';
import type { Disk, GroupReport, LogicalVolume } from './report.ts';

/** How a command changes a volume group: the increments of its sequence number, and the update of memory. */
export interface Effect {
  readonly steps: number;
  readonly apply: (memory: GroupMemory) => void;
}

/** For commands whose effect only LVM knows, such as the space that mirrors and snapshots take. */
export const askLvm = 'ask LVM';

/** Of the data of a thin pool. */
const nearlyFullPercent = 95;

/** Which volumes of a group belong together: those in the thin pool of this name, or for undefined the thick ones. */
export type Place = string | undefined;

export function isIn(place: Place, { path, pool }: LogicalVolume): boolean {
  return place === undefined ? path !== '' && pool === undefined : pool === place;
}

/** A volume group as LVM last reported it, and as our own commands have changed it since. */
export class GroupMemory {
  readonly #volumes = new Map<string, LogicalVolume>();
  #uuid = '';
  #extentBytes = 1n;
  #extents = 0n;
  #freeExtents = 0n;

  get uuid(): string {
    return this.#uuid;
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

  volumes(): LogicalVolume[] {
    return [...this.#volumes.values()];
  }

  volumesIn(place: Place): LogicalVolume[] {
    return this.volumes().filter((volume) => isIn(place, volume));
  }

  get(name: string): LogicalVolume | undefined {
    return this.#volumes.get(name);
  }

  getIn(place: Place, name: string): LogicalVolume | undefined {
    const volume = this.get(name);
    return volume && isIn(place, volume) ? volume : undefined;
  }

  hasSnapshots(name: string): boolean {
    return this.volumes().some(({ origin }) => origin === name);
  }

  /**
   * Whether it has a LUKS header that can be overwritten in place. A thin pool writes blocks that two volumes ever shared to a
   * new place, which helps nobody, and must not happen in a pool that is nearly full: it can only be emptied.
   */
  hasOwnHeader({ name, origin, pool, tags }: LogicalVolume): boolean {
    if (!isEncrypted({ tags }) || origin !== undefined) return false;
    if (pool === undefined) return true;
    const isCopied = sourceIn(tags) !== undefined || this.hasSnapshots(name);
    return !isCopied && (this.get(pool)?.dataPercent ?? 100) < nearlyFullPercent;
  }

  /** Thin snapshots in the pool of their origin are independent. LVM would remove all others with the origin. */
  mustHaveNoSnapshots(name: string): void {
    this.mustNotBeMoving(name);
    const pool = this.get(name)?.pool;
    const standsAlone = (snapshot: LogicalVolume) => pool !== undefined && snapshot.pool === pool;
    const snapshots = this.volumes().filter((volume) => volume.origin === name && !standsAlone(volume));
    if (snapshots.length > 0)
      throw new VolumeHasSnapshots(
        name,
        snapshots.map((snapshot) => snapshot.name),
      );
  }

  /** While a volume is moved, its checkpoints depend on it and on its size. */
  mustNotBeMoving(name: string): void {
    if (this.volumes().some(({ tags }) => checkpointedIn(tags) === name)) throw new VolumeBeingMoved(name);
  }

  /** Somebody may have removed the mark of the erasure, or created another volume with the same name. */
  mustBeMarked(name: string, uuid: string): LogicalVolume {
    const volume = this.get(name);
    if (volume && volume.uuid === uuid && erasureIn(volume.tags)) return volume;
    throw new ErasureCancelled(name);
  }

  /** Adds or updates the volume, which took these extents from the free ones. */
  put(volume: LogicalVolume, takenExtents = 0n): void {
    this.#volumes.set(volume.name, volume);
    this.#freeExtents -= takenExtents;
  }

  /** Removes the volume. */
  drop({ name, sizeBytes, pool }: LogicalVolume): void {
    this.#volumes.delete(name);
    if (pool === undefined) this.#freeExtents += sizeBytes / this.#extentBytes;
    for (const snapshot of this.volumes()) {
      if (snapshot.origin === name) this.#volumes.set(snapshot.name, { ...snapshot, origin: undefined });
    }
  }

  replace({ uuid, extentBytes, extents, freeExtents, volumes }: GroupReport): void {
    this.#uuid = uuid;
    this.#extentBytes = extentBytes;
    this.#extents = extents;
    this.#freeExtents = freeExtents;
    const known = new Map(this.#volumes);
    this.#volumes.clear();
    for (const volume of volumes) this.#volumes.set(volume.name, theSame(known.get(volume.name), volume));
  }
}

/** Keeps the object of an unchanged volume, so that others can cache by it. */
function theSame(known: LogicalVolume | undefined, read: LogicalVolume): LogicalVolume {
  return known && isDeepStrictEqual(known, read) ? known : read;
}

/** Reads the sequence number from the metadata on these disks, without LVM; undefined if they do not show it. */
export type SequenceNumberOf = (disks: readonly Disk[]) => Promise<number | undefined>;

/** The sequence number on the disks when they were last read. */
type OnDisks = number | 'nothing';

/** Disks that do not answer in time confirm nothing; LVM has its own timeouts. */
const readTimeoutMs = 2_000;

/**
 * Whether memory of a volume group matches LVM. A report by LVM confirms it, and later the sequence number that LVM
 * writes to the disks with each change. Disks that cannot be read confirm nothing.
 */
export class Confirmation {
  readonly #sequenceNumberOf: SequenceNumberOf;
  readonly #clock: Clock;
  #isReading = false;
  #disks: readonly Disk[] = [];
  /** Expected from our own changes; another number on the disks means a change by somebody else. */
  #sequenceNumber = 0;
  /** A number on the disks that LVM, when queried, did not report: no reason to query again. */
  #askedAbout: OnDisks | undefined;
  #isPartial = false;
  #inDoubt = true;
  #isConfirmed = false;
  #touched = true;

  constructor(sequenceNumberOf: SequenceNumberOf, clock: Clock) {
    this.#sequenceNumberOf = sequenceNumberOf;
    this.#clock = clock;
  }

  /** Memory differs from LVM, or a command failed: the group is read again as soon as that is seen. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  /** If false, LVM is queried before a change. */
  get isSure(): boolean {
    return !this.#inDoubt && this.#isConfirmed;
  }

  /** A disk is missing. Its return changes nothing on the other disks, so they can confirm nothing. */
  get isPartial(): boolean {
    return this.#isPartial;
  }

  /** Others may have changed the group since the last comparison. */
  get touched(): boolean {
    return this.#touched;
  }

  touch(): void {
    this.#touched = true;
  }

  doubt(): void {
    this.#inDoubt = true;
  }

  /** Sets the disks of the group, with paths that this process can open. */
  use(disks: readonly Disk[]): void {
    this.#disks = disks;
  }

  /** Memory now holds this report. */
  confirm({ sequenceNumber, isPartial }: GroupReport): void {
    this.#sequenceNumber = sequenceNumber;
    if (this.#askedAbout === sequenceNumber) this.#askedAbout = undefined;
    this.#isPartial = isPartial;
    this.#isConfirmed = !isPartial;
    this.#inDoubt = false;
  }

  /** One of our commands changed the group, and memory with it. */
  follow(steps: number): void {
    this.#sequenceNumber += steps;
  }

  /** Compares memory with the disks. */
  async compare(): Promise<void> {
    this.#touched = false; // a change during the read counts again
    const now = (await this.#read()) ?? 'nothing';
    const agrees = now === this.#sequenceNumber;
    if (!agrees && now !== this.#askedAbout) this.#inDoubt = true;
    this.#askedAbout = agrees ? undefined : now;
    this.#isConfirmed = agrees && !this.#isPartial;
  }

  /** Gives up on disks that hang. */
  async #read(): Promise<number | undefined> {
    if (this.#isReading) return undefined; // a hung read must not be followed by more
    this.#isReading = true;
    const reading = this.#sequenceNumberOf(this.#disks).finally(() => {
      this.#isReading = false;
    });
    const late = Promise.withResolvers<undefined>();
    const timer = this.#clock.setTimer(() => late.resolve(undefined), readTimeoutMs);
    try {
      return await Promise.race([reading, late.promise]);
    } finally {
      timer.cancel();
    }
  }
}
