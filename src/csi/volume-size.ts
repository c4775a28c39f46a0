import { InvalidInput } from '../base/errors.ts';
import { formatBytes } from '../base/quantity.ts';
import type { CapacityRange } from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Filesystem } from '../storage/filesystem.ts';
import type { VolumeUse } from './volume-use.ts';

const mebi = 1024n ** 2n;
const defaultBytes = 1024n ** 3n;

/** Sizes are whole pages, so that every pool can cut them. */
const alignmentBytes = 4096n;

/** Below these a filesystem cannot be made, or has no room left for data. */
const smallestFilesystemBytes: Readonly<Record<Filesystem, bigint>> = {
  ext4: 32n * mebi,
  xfs: 300n * mebi,
  btrfs: 200n * mebi,
};
const smallestBlockBytes = 8n * mebi;

/** How large to make a volume; what its pool cuts may be a little larger. In a range, zero means unset. */
export function volumeSize(range: CapacityRange | undefined, use: VolumeUse): bigint {
  const requiredBytes = range?.requiredBytes ?? 0n;
  const limitBytes = range?.limitBytes ?? 0n;
  if (requiredBytes < 0n)
    throw new InvalidInput('capacity_range.required_bytes is negative; ask for a size above zero');
  if (limitBytes < 0n) throw new InvalidInput('capacity_range.limit_bytes is negative; leave it out or raise it');
  const limited = limitBytes > 0n;

  if (requiredBytes === 0n && limited && limitBytes < defaultBytes) {
    const sizeBytes = roundDown(limitBytes);
    return sizeBytes >= smallest(use) ? sizeBytes : refuse(limitBytes, smallest(use));
  }
  const sizeBytes = roundUp(max(requiredBytes || defaultBytes, smallest(use)));
  return limited && sizeBytes > limitBytes ? refuse(limitBytes, sizeBytes) : sizeBytes;
}

function smallest(use: VolumeUse): bigint {
  return use.kind === 'block' ? smallestBlockBytes : smallestFilesystemBytes[use.filesystem];
}

function refuse(limitBytes: bigint, neededBytes: bigint): never {
  throw new InvalidInput(
    `capacity_range.limit_bytes allows ${formatBytes(limitBytes)}, the volume needs ${formatBytes(neededBytes)}; ` +
      'raise the limit or ask for less',
  );
}

function roundUp(bytes: bigint): bigint {
  return roundDown(bytes + alignmentBytes - 1n);
}

function roundDown(bytes: bigint): bigint {
  return bytes - (bytes % alignmentBytes);
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
