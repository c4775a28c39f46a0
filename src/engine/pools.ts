import { MoorageError, messageOf } from '../base/errors.ts';
import { Listeners } from '../base/listeners.ts';
import type { Pool } from './pool.ts';

/** What this node can serve now, and what it should but cannot. */
export interface PoolSet {
  readonly pools: readonly Pool[];
  /** The class that serves claims that name none. */
  readonly defaultClass: string | undefined;
  /** Classes that cannot be served now, and why. */
  readonly unavailable: ReadonlyMap<string, unknown>;
}

/** The pools of this node, by device class. */
export class Pools {
  #set: PoolSet = { pools: [], defaultClass: undefined, unavailable: new Map() };
  readonly #listeners = new Listeners();
  #unsubscribe: readonly (() => void)[] = [];

  constructor(pools: readonly Pool[] = [], defaultClass?: string) {
    this.become({ pools, defaultClass, unavailable: new Map() });
  }

  /** What serves claims that name no class, if there is such a class and it can be served. */
  get default(): Pool | undefined {
    return this.#set.pools.find((pool) => pool.name === this.#set.defaultClass);
  }

  /** The empty name is the default class. */
  get(deviceClass: string): Pool {
    const { pools, defaultClass, unavailable } = this.#set;
    const name = deviceClass || defaultClass;
    const pool = pools.find((pool) => pool.name === name);
    if (pool) return pool;
    if (name !== undefined && unavailable.has(name)) throw new DeviceClassUnavailable(name, unavailable.get(name));
    throw new DeviceClassNotFound(deviceClass, [...pools.map((pool) => pool.name), ...unavailable.keys()]);
  }

  all(): readonly Pool[] {
    return this.#set.pools;
  }

  /** Classes that are configured but cannot be served now, and why. */
  unavailable(): ReadonlyMap<string, unknown> {
    return this.#set.unavailable;
  }

  become(set: PoolSet): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#set = set;
    this.#unsubscribe = set.pools.map((pool) => pool.onChange(() => this.#listeners.notify()));
    this.#listeners.notify();
  }

  /** Calls back after each change of a pool, and when classes come or go; returns how to stop that. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
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

/** It is configured, and served as soon as what it stands on is there. */
export class DeviceClassUnavailable extends MoorageError {
  readonly code = 'Unavailable';

  constructor(deviceClass: string, cause: unknown) {
    super(`device class ${deviceClass} cannot be served now: ${messageOf(cause)}`, { cause });
  }
}

/** Nothing is wrong with the engine, and no restart would make it faster. */
export class BeingOpened extends MoorageError {
  readonly code = 'Unavailable';

  constructor() {
    super(
      'it is still being opened: its volumes are given their devices, after LVM has checked their thin pool; wait, or look for a slow or hung disk',
    );
  }
}
