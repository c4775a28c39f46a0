import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LogicalVolumeSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Volume } from '../storage/pool.ts';
import type { DeviceNumbers } from './device-numbers.ts';

type VolumeMessage = MessageInitShape<typeof LogicalVolumeSchema>;

export function volumeMessage(volume: Volume, numbers: DeviceNumbers): VolumeMessage {
  const [message] = volumeMessages([volume], numbers);
  return message ?? {};
}

export function volumeMessages(volumes: readonly Volume[], numbers: DeviceNumbers): VolumeMessage[] {
  const devices = numbers.of(volumes.map(({ devicePath }) => devicePath));
  return volumes.map((volume, i) => ({
    name: volume.id,
    sizeBytes: volume.sizeBytes,
    sizeGb: volume.sizeBytes / 1024n ** 3n,
    devMajor: devices[i]?.major ?? 0,
    devMinor: devices[i]?.minor ?? 0,
    tags: [...volume.tags],
    path: volume.devicePath,
    attr: volume.attr,
    origin: volume.origin ?? '',
  }));
}
