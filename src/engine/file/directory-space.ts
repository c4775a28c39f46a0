import type { Capacity, VolumeId } from '../pool.ts';
import type { FileVolume } from './attached-volumes.ts';
import type { VolumeFiles } from './volume-files.ts';

/** The room of a pool's directory, as last measured: of what is free, only what no volume was promised. */
export class DirectorySpace {
  readonly #files: VolumeFiles;
  #measured: Capacity = { sizeBytes: 0n, freeBytes: 0n };

  constructor(files: VolumeFiles) {
    this.#files = files;
  }

  get measured(): Capacity {
    return this.#measured;
  }

  /**
   * Volumes are written and trimmed meanwhile, so what is free is measured before and after what they may still take of
   * it: the lesser counts. A file that somebody took away takes nothing more; the next refresh notices that it is gone.
   */
  async measure(volumes: readonly FileVolume[]): Promise<void> {
    const before = await this.#files.space();
    const rooms = await Promise.allSettled(
      volumes.map(async ({ id, family }) => ({ ...(await this.#files.room(id)), family })),
    );
    const present = rooms.flatMap((room) => (room.status === 'fulfilled' ? [room.value] : []));
    const after = await this.#files.space();
    const freeBytes = before.freeBytes < after.freeBytes ? before.freeBytes : after.freeBytes;
    this.#measured = { sizeBytes: after.sizeBytes, freeBytes: freeBytes - roomToCome(present) };
  }
}

/** What a file has of the room that its volume was promised. */
export interface FileRoom {
  readonly sizeBytes: bigint;
  /** On the disk now, counting what it shares with copies. */
  readonly takenBytes: bigint;
  /** Files of one family may share blocks. */
  readonly family: VolumeId;
}

/**
 * What volumes may still take. Copies share blocks until one of them is written, and what a filesystem in a volume
 * discards leaves a hole in its file; yet each volume was promised all of its size. A family has taken at least as much
 * as the fullest of it; if it has taken more, some of it is kept twice, which is too careful rather than too little.
 */
export function roomToCome(files: readonly FileRoom[]): bigint {
  let bytes = 0n;
  for (const family of Map.groupBy(files, (file) => file.family).values()) {
    const promised = family.reduce((sum, file) => sum + file.sizeBytes, 0n);
    const taken = family.reduce((most, { takenBytes }) => (takenBytes > most ? takenBytes : most), 0n);
    if (promised > taken) bytes += promised - taken;
  }
  return bytes;
}
