import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Clock, systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import type { Pool } from '../../engine/pool.ts';
import { Pools } from '../../engine/pools.ts';
import { serveLvmd } from '../lvmd-server.ts';

/** For tests: serves these pools on a real socket for as long as the test runs. The first is the default. */
export async function servingEngine(
  t: TestContext,
  served: readonly Pool[],
  clock: Clock = systemClock,
): Promise<{ readonly socketPath: string; readonly pools: Pools }> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-lvmd-'));
  const socketPath = join(directory, 'lvmd.sock');
  const pools = new Pools(served, served[0]?.name);
  const server = await serveLvmd({ socketPath, pools, clock, log: silentLog });
  t.after(async () => {
    await server.stop(0);
    await rm(directory, { recursive: true });
  });
  return { socketPath, pools };
}
