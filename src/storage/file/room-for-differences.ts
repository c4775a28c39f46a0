import type { VolumeId } from '../pool.ts';

interface Member {
  readonly sizeBytes: bigint;
  readonly family: VolumeId;
}

/**
 * What copies and their originals may still take: they share blocks now, and each block that one of them changes is a
 * new one. As much as the largest of a family is taken already; whatever more is taken by now is counted twice, which
 * keeps a little too much room rather than too little.
 */
export function roomForDifferences(volumes: readonly Member[]): bigint {
  const families = Map.groupBy(volumes, (volume) => volume.family);
  let bytes = 0n;
  for (const members of families.values()) {
    const sizes = members.map((member) => member.sizeBytes);
    const largest = sizes.reduce((one, other) => (one > other ? one : other));
    bytes += sizes.reduce((sum, size) => sum + size, 0n) - largest;
  }
  return bytes;
}
