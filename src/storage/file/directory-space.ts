import type { Capacity } from '../pool.ts';
import type { FileVolume } from './attached-volumes.ts';
import { roomToCome } from './room-to-come.ts';
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
