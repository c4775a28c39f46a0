import type { MessageInitShape } from '@bufbuild/protobuf';
import { abortable } from '../base/abortable.ts';
import type { Pool } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import type { VGService, WatchItemSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import { checkDeviceClass, refuseUnknownFields } from './requests.ts';
import type { VolumeMessages } from './volume-message.ts';

/** What there is, in TopoLVM's words: from the engine's memory, with no command run. */
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
    // TopoLVM's node announces this figure: of a pool that fills up nothing more may be promised.
    ...(thin && { thinPool: { ...thin, overprovisionBytes: freeBytes } }),
  };
}

/**
 * Yields at once, and again whenever pools have changed since: changes that come while the consumer is busy are one.
 * Throws the signal's reason when that is aborted.
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
