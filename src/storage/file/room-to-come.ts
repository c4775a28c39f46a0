import type { VolumeId } from '../pool.ts';

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
