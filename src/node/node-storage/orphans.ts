import { type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { ephemeralTag } from '../../api/names.ts';
import { createdTag } from '../../engine/names-and-tags.ts';
import type { Pool, Volume } from '../../engine/pool.ts';

export interface Orphan {
  readonly deviceClass: string;
  readonly volume: Volume;
}

/** The orphans now, and how long until a volume that has no object now may become one. */
export interface FoundOrphans {
  readonly orphans: readonly Orphan[];
  readonly nextInMs: number | undefined;
}

/**
 * Finds volumes that have no LogicalVolume. A volume counts only after a whole interval without one: it may just be created
 * or removed, and the watch of LogicalVolumes is always a little late. The inline volume of a pod needs no LogicalVolume.
 */
export class Orphans {
  readonly #settleMs: number;
  /** When each volume was first seen without an object, by its device. */
  #since: ReadonlyMap<string, number> = new Map();

  constructor(settleMs: number) {
    this.#settleMs = settleMs;
  }

  find(pools: readonly Pool[], objects: readonly StoredLogicalVolume[], nowMs: number): FoundOrphans {
    const known = new Set(objects.map(volumeIdOf));
    const since = new Map<string, number>();
    const orphans: Orphan[] = [];
    let nextInMs: number | undefined;
    for (const pool of pools) {
      for (const volume of pool.list()) {
        // Classes of one volume group list the same volumes.
        if (known.has(volume.id) || volume.tags.includes(ephemeralTag) || since.has(volume.devicePath)) continue;
        const sinceMs = this.#since.get(volume.devicePath) ?? nowMs;
        since.set(volume.devicePath, sinceMs);
        const missingMs = this.#settleMs - (nowMs - sinceMs);
        if (missingMs <= 0) orphans.push({ deviceClass: pool.name, volume });
        else nextInMs = Math.min(nextInMs ?? missingMs, missingMs);
      }
    }
    this.#since = since;
    return { orphans: orphans.toSorted(oursFirst), nextInMs };
  }
}

/** Volumes of others, such as an administrator's, must not push ours off the end of a list. */
function oursFirst({ volume: one }: Orphan, { volume: other }: Orphan): number {
  const rank = ({ tags }: Volume) => (tags.includes(createdTag) ? 0 : 1);
  return rank(one) - rank(other) || (one.id < other.id ? -1 : 1);
}
