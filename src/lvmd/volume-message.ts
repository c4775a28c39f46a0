import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { DeviceNumber } from '../base/device-number.ts';
import type { Volume } from '../engine/pool.ts';
import { GetLVListResponseSchema, LogicalVolumeSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { encodedMessage } from '../rpc/service-definition.ts';
import type { DeviceNumbers } from './device-numbers.ts';

type VolumeMessage = MessageInitShape<typeof LogicalVolumeSchema>;
type ListMessage = MessageInitShape<typeof GetLVListResponseSchema>;

/** A volume in a list, encoded. */
interface Entry {
  readonly device: DeviceNumber;
  readonly bytes: Uint8Array;
}

interface List {
  readonly entries: readonly Entry[];
  readonly message: ListMessage;
}

const noDevice: DeviceNumber = { major: 0, minor: 0 };

/**
 * Volumes as lvmd's messages. Lists are requested often, so a volume is encoded once while it does not change, and so is a
 * list of the same volumes.
 */
export class VolumeMessages {
  readonly #numbers: DeviceNumbers;
  readonly #entries = new WeakMap<Volume, Entry>();
  /** By their first volume. */
  readonly #lists = new WeakMap<Volume, List>();

  constructor(numbers: DeviceNumbers) {
    this.#numbers = numbers;
  }

  async one(volume: Volume): Promise<VolumeMessage> {
    const [device = noDevice] = await this.#numbers.of([volume.devicePath]);
    return messageOf(volume, device);
  }

  async list(volumes: readonly Volume[]): Promise<ListMessage> {
    const [first] = volumes;
    if (!first) return {};
    const devices = await this.#numbers.of(volumes.map(({ devicePath }) => devicePath));
    const entries = volumes.map((volume, i) => this.#entry(volume, devices[i] ?? noDevice));
    const known = this.#lists.get(first);
    if (known?.entries.length === entries.length && entries.every((entry, i) => entry === known.entries[i])) {
      return known.message;
    }
    const message = encoded(entries);
    this.#lists.set(first, { entries, message });
    return message;
  }

  #entry(volume: Volume, device: DeviceNumber): Entry {
    const known = this.#entries.get(volume);
    if (known?.device.major === device.major && known.device.minor === device.minor) return known;
    const bytes = toBinary(LogicalVolumeSchema, create(LogicalVolumeSchema, messageOf(volume, device)));
    const entry = { device, bytes };
    this.#entries.set(volume, entry);
    return entry;
  }
}

function encoded(entries: readonly Entry[]): ListMessage {
  const writer = new BinaryWriter();
  const { number } = GetLVListResponseSchema.field.volumes;
  for (const { bytes } of entries) writer.tag(number, WireType.LengthDelimited).bytes(bytes);
  return encodedMessage(GetLVListResponseSchema, writer.finish());
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
