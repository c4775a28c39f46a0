import { abortable } from '../base/abortable.ts';
import type { Pools } from '../storage/pools.ts';

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
