import { MoorageError } from '../base/errors.ts';
import type { Run } from '../base/exec.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import type { Log } from '../base/log.ts';
import type { DeviceClass, StorageConfig } from './device-classes.ts';
import { PoolMissing } from './errors.ts';
import { FilePool } from './file/file-pool.ts';
import { Lvm } from './lvm/lvm.ts';
import { LvmPool } from './lvm/lvm-pool.ts';
import type { Pool } from './pool.ts';

export interface PoolsCollaborators {
  readonly run: Run;
  /** The environment that LVM commands inherit. */
  readonly env: NodeJS.ProcessEnv;
  readonly log: Log;
}

/** The pools of this node, by device class. */
export class Pools {
  readonly #pools: ReadonlyMap<string, Pool>;
  /** What serves claims that name no class, if there is such a class. */
  readonly default: Pool | undefined;

  constructor(pools: readonly Pool[], defaultClass: string | undefined) {
    this.#pools = new Map(pools.map((pool) => [pool.name, pool]));
    this.default = defaultClass === undefined ? undefined : this.#pools.get(defaultClass);
  }

  /** Opens and loads every pool; fails if one of them is not there. */
  static async open(config: StorageConfig, { run, env, log }: PoolsCollaborators, signal: AbortSignal): Promise<Pools> {
    const lvm = new Lvm({ command: config.lvmCommand, run, env });
    const lock = new KeyedLock();
    const open = (deviceClass: DeviceClass): Promise<Pool> =>
      deviceClass.type === 'file'
        ? FilePool.open({ deviceClass, run, log }, signal)
        : deviceClass.type === 'thick'
          ? LvmPool.open({ deviceClass, lvm, lock, log }, signal)
          : Promise.reject(new PoolMissing(`device class ${deviceClass.name} is thin; use a thick class`));
    const pools = await Promise.all(config.deviceClasses.map(open));
    return new Pools(pools, config.deviceClasses.find((deviceClass) => deviceClass.isDefault)?.name);
  }

  /** The empty name is the default class. */
  get(deviceClass: string): Pool {
    const pool = deviceClass === '' ? this.default : this.#pools.get(deviceClass);
    if (!pool) throw new DeviceClassNotFound(deviceClass, [...this.#pools.keys()]);
    return pool;
  }

  all(): readonly Pool[] {
    return [...this.#pools.values()];
  }
}

export class DeviceClassNotFound extends MoorageError {
  readonly code = 'NotFound';

  constructor(deviceClass: string, known: readonly string[]) {
    const what =
      deviceClass === '' ? 'this node has no default device class' : `this node has no device class ${deviceClass}`;
    super(`${what}; it has ${known.join(', ')}`);
  }
}
