import type { MessageInitShape } from '@bufbuild/protobuf';
import type { VGService, WatchItemSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import type { Capacity, Pool } from '../storage/pool.ts';
import type { Pools } from '../storage/pools.ts';
import { changes } from './changes.ts';
import { checkDeviceClass, refuseUnknownFields } from './requests.ts';
import { volumeMessage } from './volume-message.ts';

/** What there is, in TopoLVM's words: from the engine's memory, with no command run. */
export function vgService(
  pools: Pick<Pools, 'get' | 'all' | 'default' | 'onChange'>,
): Implementation<typeof VGService> {
  const poolOf = (deviceClass: string): Pool => {
    checkDeviceClass(deviceClass);
    return pools.get(deviceClass);
  };

  return {
    async getLVList(request) {
      refuseUnknownFields(request);
      return { volumes: poolOf(request.deviceClass).list().map(volumeMessage) };
    },

    async getFreeBytes(request) {
      refuseUnknownFields(request);
      return { freeBytes: promisableBytes(poolOf(request.deviceClass).capacity()) };
    },

    async *watch(request, { signal }) {
      refuseUnknownFields(request);
      for await (const _ of changes(pools, signal)) {
        yield {
          freeBytes: pools.default ? promisableBytes(pools.default.capacity()) : 0n,
          items: pools.all().map(watchItem),
        };
      }
    },
  };
}

function watchItem(pool: Pool): MessageInitShape<typeof WatchItemSchema> {
  const { sizeBytes, freeBytes, thin } = pool.capacity();
  return { deviceClass: pool.name, sizeBytes, freeBytes, ...(thin && { thinPool: thin }) };
}

/** What a new volume may have; of a thin pool that is more than there is, if it is overprovisioned. */
function promisableBytes({ freeBytes, thin }: Capacity): bigint {
  return thin?.overprovisionBytes ?? freeBytes;
}
