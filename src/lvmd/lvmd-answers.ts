import type { Capacity, PoolDetails, Volume } from '../engine/pool.ts';
import type { LogicalVolume, ThinPoolItem } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Pool as ReportedPool } from '../rpc/gen/moorage/v1/engine_pb.ts';

/** For a thin class, TopoLVM's item itself has the sizes of the volume group, so these replace them. */
export function thinCapacity({ dataPercent, metadataPercent, sizeBytes, overprovisionBytes }: ThinPoolItem): Capacity {
  const thin = { dataPercent, metadataPercent, sizeBytes, overprovisionBytes };
  return { sizeBytes, freeBytes: overprovisionBytes, thin };
}

const types: ReadonlySet<string> = new Set<PoolDetails['type']>(['thick', 'thin', 'file']);

/** Undefined if the type is unknown to this version. */
export function detailsIn({ isDefault, details }: ReportedPool): PoolDetails | undefined {
  if (!details || !types.has(details.type)) return undefined;
  const { volumeGroup, volumeGroupUuid, thinPool, directory, problem, usedBytes, spareBytes } = details;
  return {
    type: details.type as PoolDetails['type'],
    isDefault,
    usedBytes,
    spareBytes,
    ...(volumeGroup && { volumeGroup }),
    ...(volumeGroupUuid && { volumeGroupUuid }),
    ...(thinPool && { thinPool }),
    ...(directory && { directory }),
    ...(problem && { problem }),
  };
}

export function toVolume({ name, sizeBytes, path, tags, attr, origin }: LogicalVolume): Volume {
  return {
    id: name,
    sizeBytes,
    devicePath: path,
    tags: tags.filter((tag) => tag !== ''), // TopoLVM sends one empty tag for none
    readOnly: attr[1]?.toLowerCase() === 'r',
    attr,
    ...(origin && { origin }),
  };
}
