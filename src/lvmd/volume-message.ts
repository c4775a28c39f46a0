import { create, type MessageInitShape, toBinary, type UnknownField } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { type GetLVListResponse, GetLVListResponseSchema, LogicalVolumeSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { DeviceNumber } from '../storage/device-number.ts';
import type { Volume } from '../storage/pool.ts';
import type { DeviceNumbers } from './device-numbers.ts';

type VolumeMessage = MessageInitShape<typeof LogicalVolumeSchema>;

interface Entry {
  readonly device: DeviceNumber;
  readonly field: UnknownField;
}

const noDevice: DeviceNumber = { major: 0, minor: 0 };

/** Volumes as lvmd's messages. Lists are asked for again and again: each volume is encoded once, for as long as it is the same. */
export class VolumeMessages {
  readonly #numbers: DeviceNumbers;
  readonly #entries = new WeakMap<Volume, Entry>();

  constructor(numbers: DeviceNumbers) {
    this.#numbers = numbers;
  }

  one(volume: Volume): VolumeMessage {
    const [device = noDevice] = this.#numbers.of([volume.devicePath]);
    return messageOf(volume, device);
  }

  /** To be sent only: its volumes are there as bytes, which are copied as they are. */
  list(volumes: readonly Volume[]): GetLVListResponse {
    const devices = this.#numbers.of(volumes.map(({ devicePath }) => devicePath));
    const list = create(GetLVListResponseSchema);
    list.$unknown = volumes.map((volume, i) => this.#field(volume, devices[i] ?? noDevice));
    return list;
  }

  #field(volume: Volume, device: DeviceNumber): UnknownField {
    const known = this.#entries.get(volume);
    if (known?.device.major === device.major && known.device.minor === device.minor) return known.field;
    const message = toBinary(LogicalVolumeSchema, create(LogicalVolumeSchema, messageOf(volume, device)));
    const data = new BinaryWriter().bytes(message).finish();
    const field = { no: GetLVListResponseSchema.field.volumes.number, wireType: WireType.LengthDelimited, data };
    this.#entries.set(volume, { device, field });
    return field;
  }
}

function messageOf(volume: Volume, { major, minor }: DeviceNumber): VolumeMessage {
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
