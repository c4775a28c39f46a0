import type { MessageInitShape } from '@bufbuild/protobuf';
import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { checkVolumeId } from '../engine/names-and-tags.ts';
import type { Erasure, Pool } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import type { EngineService, ErasureSchema, PoolSchema } from '../rpc/gen/moorage/v1/engine_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import { addedTags, checkDeviceClass, refuseUnknownFields, requestedPolicy } from './requests.ts';

/** Often enough for a person who watches the progress. */
const progressEveryMs = 500;

/** What TopoLVM's protocol lacks. */
export function engineService(
  pools: Pick<Pools, 'get' | 'all' | 'default' | 'unavailable' | 'unserved'>,
  clock: Clock,
): Implementation<typeof EngineService> {
  const poolOf = (deviceClass: string): Pool => {
    checkDeviceClass(deviceClass);
    return pools.get(deviceClass);
  };

  return {
    async listPools(request) {
      refuseUnknownFields(request);
      const serving = pools.all().map((pool) => poolMessage(pool, pool === pools.default));
      const missing = [...pools.unavailable()].map(([deviceClass, reason]) => ({
        deviceClass,
        unavailable: messageOf(reason),
      }));
      const unserved = pools.unserved().map(({ id, tags, ...rest }) => ({ ...rest, name: id, tags: [...tags] }));
      return { pools: [...serving, ...missing], unserved };
    },

    async addTags(request, { signal }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      await poolOf(request.deviceClass).addTags(request.name, addedTags(request.tags), signal);
      return {};
    },

    async emptyVolume(request, { signal, log }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      await poolOf(request.deviceClass).empty(request.name, requestedPolicy(request.policy), signal);
      log.info({ volume: request.name }, 'volume emptied');
      return {};
    },

    async *watchErasure(request, { signal }) {
      refuseUnknownFields(request);
      checkVolumeId(request.name);
      const pool = poolOf(request.deviceClass);
      for (;;) {
        const erasure = pool.erasures().find(({ id }) => id === request.name);
        if (erasure) yield { erasure: erasureMessage(erasure) };
        else if (!pool.get(request.name)) return;
        await pause(clock, progressEveryMs, signal);
      }
    },
  };
}

function poolMessage(pool: Pool, isDefault: boolean): MessageInitShape<typeof PoolSchema> {
  const { sizeBytes, freeBytes, thin } = pool.capacity();
  const details = pool.details();
  return {
    deviceClass: pool.name,
    isDefault,
    sizeBytes,
    freeBytes,
    volumes: pool.list().length,
    ...(thin && { thin: { dataPercent: thin.dataPercent, metadataPercent: thin.metadataPercent } }),
    erasures: pool.erasures().map(erasureMessage),
    ...(details && { details }),
  };
}

function erasureMessage({ id, doneBytes, totalBytes }: Erasure): MessageInitShape<typeof ErasureSchema> {
  return { name: id, doneBytes, totalBytes };
}
