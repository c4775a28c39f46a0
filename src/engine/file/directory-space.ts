import type { Capacity, VolumeId } from '../pool.ts';
import type { FileVolume } from './attached-volumes.ts';
import type { VolumeFiles } from './volume-files.ts';

/** The space in a pool's directory, as last measured. Space that is reserved for volumes does not count as free. */
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
   * Volumes are written and trimmed meanwhile, so free space is measured before and after the files, and the lower value
   * counts. A file that somebody deleted needs no more space; the next refresh notices that it is gone.
   */
  async measure(volumes: readonly FileVolume[]): Promise<void> {
    const before = await this.#files.space();
    const families = new Map(volumes.map(({ id, family }) => [id, family]));
    const checkpoints = await this.#files.listCheckpoints();
    const rooms = await Promise.allSettled([
      ...volumes.map(async ({ id, family }) => ({ ...(await this.#files.room(id)), family })),
      ...checkpoints.map(async ({ volume, path }) => ({
        ...(await this.#files.roomOf(path)),
        family: families.get(volume) ?? volume,
      })),
    ]);
    const present = rooms.flatMap((room) => (room.status === 'fulfilled' ? [room.value] : []));
    const after = await this.#files.space();
    const freeBytes = before.freeBytes < after.freeBytes ? before.freeBytes : after.freeBytes;
    this.#measured = { sizeBytes: after.sizeBytes, freeBytes: freeBytes - unallocatedBytes(present) };
  }
}

/** How much of its volume's size a file has allocated. */
export interface FileAllocation {
  readonly sizeBytes: bigint;
  /** On the disk now, including blocks shared with copies. */
  readonly takenBytes: bigint;
  /** Files of one family may share blocks. */
  readonly family: VolumeId;
}

/**
 * The space that volumes may still need. Copies share blocks until one of them is written, and a discard leaves a hole in
 * the file; yet each volume is entitled to its full size. A family has allocated at least as much as its fullest member;
 * if it has allocated more, the result is too high, which is safe.
 */
export function unallocatedBytes(files: readonly FileAllocation[]): bigint {
  let bytes = 0n;
  for (const family of Map.groupBy(files, (file) => file.family).values()) {
    const promised = family.reduce((sum, file) => sum + file.sizeBytes, 0n);
    const taken = family.reduce((most, { takenBytes }) => (takenBytes > most ? takenBytes : most), 0n);
    if (promised > taken) bytes += promised - taken;
  }
  return bytes;
}
