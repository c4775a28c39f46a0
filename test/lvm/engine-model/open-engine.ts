import { systemClock } from '../../../src/base/clock.ts';
import { run } from '../../../src/base/exec.ts';
import { silentLog } from '../../../src/base/testing/silent-log.ts';
import type { Pools } from '../../../src/engine/pools.ts';
import { StorageEngine } from '../../../src/engine/storage-engine.ts';

/** The storage engine as in a real process. Throws unless every class of the configuration can be served. */
export async function openEngine(configFile: string): Promise<Pools> {
  const options = {
    configFile,
    stateDirectory: `${configFile}-state`,
    run,
    env: process.env,
    clock: systemClock,
    log: silentLog,
  };
  const engine = await StorageEngine.start(options, new AbortController().signal);
  for (const { name } of engine.deviceClasses()) engine.pools.get(name);
  return engine.pools;
}
