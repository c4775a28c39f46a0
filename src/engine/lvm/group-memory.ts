import { isDeepStrictEqual } from 'node:util';
import { ErasureCancelled, erasureIn } from '../erase/erasure.ts';
import { VolumeHasSnapshots } from '../errors.ts';
import type { GroupReport, LogicalVolume } from './report.ts';

/** How a command changes a volume group: the increments of its sequence number, and the update of memory. */
export interface Effect {
  readonly steps: number;
  readonly apply: (memory: GroupMemory) => void;
}

/** For commands whose effect only LVM knows, such as the space that mirrors and snapshots take. */
export const askLvm = 'ask LVM';

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
