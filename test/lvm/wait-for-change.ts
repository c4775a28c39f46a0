import { once } from 'node:events';
import type { Pools } from '../../src/engine/pools.ts';

/** Waits up to two minutes for a change of the pools that makes the condition true. */
export async function waitForChange(pools: Pools, isSo: () => boolean): Promise<void> {
  const deadline = AbortSignal.timeout(120_000);
  const target = new EventTarget();
  const stop = pools.onChange(() => target.dispatchEvent(new Event('change')));
  try {
    while (!isSo()) await once(target, 'change', { signal: deadline });
  } finally {
    stop();
  }
}
