import { once } from 'node:events';
import type { Pools } from '../../src/engine/pools.ts';

/** Waits for a change of the pools after which it is so, for two minutes at most. */
export async function becomes(pools: Pools, isSo: () => boolean): Promise<void> {
  const deadline = AbortSignal.timeout(120_000);
  const target = new EventTarget();
  const stop = pools.onChange(() => target.dispatchEvent(new Event('change')));
  try {
    while (!isSo()) await once(target, 'change', { signal: deadline });
  } finally {
    stop();
  }
}
