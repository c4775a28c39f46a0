import { InvalidInput } from '../../base/errors.ts';
import { formatBytes } from '../../base/quantity.ts';
import type { CapacityRange } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { VolumeUse } from '../volume-use.ts';

const defaultBytes = 1024n ** 3n;

/** Sizes are whole pages, so that every pool can allocate them. */
const alignmentBytes = 4096n;

const smallestBlockBytes = 8n * 1024n ** 2n;

/**
 * The size of a new volume; the pool may allocate a little more. In a range, zero means unset: a copy then has the size of
 * its source.
 */
export function volumeSize(range: CapacityRange | undefined, use: VolumeUse, unsetBytes = defaultBytes): bigint {
  const { requiredBytes, limitBytes } = checked(range);
  if (requiredBytes === 0n && limitBytes > 0n && limitBytes < unsetBytes) {
    const sizeBytes = roundDown(limitBytes);
    return sizeBytes >= smallest(use) ? sizeBytes : refuse(limitBytes, smallest(use));
  }
  return within(limitBytes, roundUp(max(requiredBytes || unsetBytes, smallest(use))));
}

/** The size that an existing volume grows to. */
export function grownSize(range: CapacityRange): bigint {
  const { requiredBytes, limitBytes } = checked(range);
  if (requiredBytes === 0n) {
    throw new InvalidInput('capacity_range.required_bytes is missing from the request; request a size above zero');
  }
  return within(limitBytes, roundUp(requiredBytes));
}

function checked(range: CapacityRange | undefined): { readonly requiredBytes: bigint; readonly limitBytes: bigint } {
  const { requiredBytes, limitBytes } = range ?? { requiredBytes: 0n, limitBytes: 0n };
  if (requiredBytes < 0n) {
    throw new InvalidInput('capacity_range.required_bytes is negative; request a size above zero');
  }
  if (limitBytes < 0n) throw new InvalidInput('capacity_range.limit_bytes is negative; leave it out or raise it');
  return { requiredBytes, limitBytes };
}

function within(limitBytes: bigint, sizeBytes: bigint): bigint {
  return limitBytes > 0n && sizeBytes > limitBytes ? refuse(limitBytes, sizeBytes) : sizeBytes;
}

function smallest(use: VolumeUse): bigint {
  return use.kind === 'block' ? smallestBlockBytes : use.filesystem.smallestBytes;
}

function refuse(limitBytes: bigint, neededBytes: bigint): never {
  throw new InvalidInput(
    `capacity_range.limit_bytes allows ${formatBytes(limitBytes)}, the volume needs ${formatBytes(neededBytes)}; ` +
      'raise the limit or request less',
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
