import { statSync } from 'node:fs';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LogicalVolumeSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Volume } from '../storage/pool.ts';

export function volumeMessage(volume: Volume): MessageInitShape<typeof LogicalVolumeSchema> {
  const { major, minor } = deviceNumbers(volume.devicePath);
  return {
    name: volume.id,
    sizeBytes: volume.sizeBytes,
    sizeGb: volume.sizeBytes / 1024n ** 3n,
    devMajor: major,
    devMinor: minor,
    tags: [...volume.tags],
    path: volume.devicePath,
    attr: volume.attr,
    origin: volume.origin ?? '',
  };
}

/**
 * Zeros for a volume that has no device now. Not asynchronous: names in /dev are in memory, and a list asks for hundreds.
 */
export function deviceNumbers(devicePath: string): { readonly major: number; readonly minor: number } {
  const device = statSync(devicePath, { throwIfNoEntry: false, bigint: true });
  if (!device?.isBlockDevice()) return { major: 0, minor: 0 };
  return splitDeviceNumber(device.rdev);
}

/** As the C library packs them: 12 and 8 bits in the middle, what does not fit there around them. */
export function splitDeviceNumber(rdev: bigint): { readonly major: number; readonly minor: number } {
  return {
    major: Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n)),
    minor: Number((rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n)),
  };
}
