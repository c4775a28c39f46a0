import type { MessageInitShape } from '@bufbuild/protobuf';
import { abortable } from '../base/abortable.ts';
import type { Pool } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import type { VGService, WatchItemSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import { checkDeviceClass, refuseUnknownFields } from './requests.ts';
import type { VolumeMessages } from './volume-message.ts';

/** Volumes and free space, in TopoLVM's protocol: from the engine's memory, without running a command. */
export function vgService(
  pools: Pick<Pools, 'get' | 'all' | 'default' | 'onChange'>,
  messages: VolumeMessages,
): Implementation<typeof VGService> {
  const poolOf = (deviceClass: string): Pool => {
    checkDeviceClass(deviceClass);
    return pools.get(deviceClass);
  };

  return {
    async getLVList(request) {
      refuseUnknownFields(request);
      return messages.list(poolOf(request.deviceClass).list());
    },

    async getFreeBytes(request) {
      refuseUnknownFields(request);
      return { freeBytes: poolOf(request.deviceClass).capacity().freeBytes };
    },

    async *watch(request, { signal }) {
      refuseUnknownFields(request);
      for await (const _ of changes(pools, signal)) {
        yield {
          freeBytes: pools.default?.capacity().freeBytes ?? 0n,
          items: pools.all().map(watchItem),
        };
      }
    },
  };
}

function watchItem(pool: Pool): MessageInitShape<typeof WatchItemSchema> {
  const { sizeBytes, freeBytes, thin } = pool.capacity();
  return {
    deviceClass: pool.name,
    sizeBytes,
    freeBytes,
    // TopoLVM's node publishes this value: a pool that fills up must promise nothing more.
    ...(thin && { thinPool: { ...thin, overprovisionBytes: freeBytes } }),
  };
}

/**
 * Yields at once, and again after pools have changed: changes while the consumer is busy count as one. Throws the signal's
 * reason when it is aborted.
 */
export async function* changes(pools: Pick<Pools, 'onChange'>, signal: AbortSignal): AsyncGenerator<void> {
  let news = Promise.withResolvers<void>();
  const stop = pools.onChange(() => news.resolve());
  try {
    for (;;) {
      news = Promise.withResolvers();
      yield;
      await abortable(news.promise, signal);
    }
  } finally {
    stop();
  }
}
