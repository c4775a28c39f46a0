import { InvalidInput } from '../base/errors.ts';
import { VolumeNotFound } from '../engine/errors.ts';
import { checkVolumeId } from '../engine/names-and-tags.ts';
import type { Pool } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import type { LVService } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import {
  checkDeviceClass,
  checkOptionClass,
  refuseUnknownFields,
  requestedBytes,
  requestedBytesIfAny,
  requestedTags,
} from './requests.ts';
import type { VolumeMessages } from './volume-message.ts';

/** Changes of volumes, in TopoLVM's protocol. Every call can be retried, with the same result. */
export function lvService(pools: Pick<Pools, 'get'>, messages: VolumeMessages): Implementation<typeof LVService> {
  const poolOf = (deviceClass: string): Pool => {
    checkDeviceClass(deviceClass);
    return pools.get(deviceClass);
  };

  return {
    async createLV(request, { signal, log }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      checkOptionClass(request.lvcreateOptionClass);
      const wanted = {
        id: request.name,
        sizeBytes: requestedBytes(request),
        tags: requestedTags(request.tags),
        ...(request.lvcreateOptionClass && { optionClass: request.lvcreateOptionClass }),
      };
      const volume = await poolOf(request.deviceClass).create(wanted, signal);
      log.info({ volume: volume.id, sizeBytes: String(volume.sizeBytes) }, 'volume created');
      return { volume: await messages.one(volume) };
    },

    async removeLV(request, { signal, log }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      const pool = poolOf(request.deviceClass);
      const removal = await pool.remove(request.name, signal);
      if (removal === 'absent') throw new VolumeNotFound(pool.name, request.name);
      log.info({ volume: request.name }, `volume ${removal}`);
      return { erased: removal === 'erased' };
    },

    async resizeLV(request, { signal, log }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      const volume = await poolOf(request.deviceClass).grow(request.name, requestedBytes(request), signal);
      log.info({ volume: volume.id, sizeBytes: String(volume.sizeBytes) }, 'volume grown');
      return { sizeBytes: volume.sizeBytes };
    },

    async createLVSnapshot(request, { signal, log }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      checkVolumeId(request.sourceVolume);
      const sizeBytes = requestedBytesIfAny(request);
      const wanted = {
        id: request.name,
        tags: requestedTags(request.tags),
        access: accessOf(request.accessType),
        ...(sizeBytes !== undefined && { sizeBytes }),
      };
      const snapshot = await poolOf(request.deviceClass).snapshot(request.sourceVolume, wanted, signal);
      log.info({ volume: snapshot.id, source: request.sourceVolume }, 'snapshot created');
      return { snapshot: await messages.one(snapshot) };
    },
  };
}

function accessOf(accessType: string): 'ro' | 'rw' {
  if (accessType === 'ro' || accessType === 'rw') return accessType;
  throw new InvalidInput(`invalid access_type ${JSON.stringify(accessType.slice(0, 128))}: use ro or rw`);
}
