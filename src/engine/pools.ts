import { isDeepStrictEqual } from 'node:util';
import { MoorageError, messageOf } from '../base/errors.ts';
import { Listeners } from '../base/listeners.ts';
import type { PlacedVolume, Pool, VolumeId } from './pool.ts';

/** The classes that this node serves now, and those that it cannot serve. */
export interface PoolSet {
  readonly pools: readonly Pool[];
  /** The class for claims that name none. */
  readonly defaultClass: string | undefined;
  /** Classes that cannot be served now, and why. */
  readonly unavailable: ReadonlyMap<string, unknown>;
}

/** The pools of this node, by device class. */
export class Pools {
  #set: PoolSet = { pools: [], defaultClass: undefined, unavailable: new Map() };
  #unserved: readonly PlacedVolume[] = [];
  readonly #listeners = new Listeners();
  #unsubscribe: readonly (() => void)[] = [];

  constructor(pools: readonly Pool[] = [], defaultClass?: string) {
    this.become({ pools, defaultClass, unavailable: new Map() });
  }

  /** The pool for claims that name no class; undefined if there is none or it cannot be served. */
  get default(): Pool | undefined {
    return this.#set.pools.find((pool) => pool.name === this.#set.defaultClass);
  }

  /** The empty name means the default class. */
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

  /** Volumes that no class has, because theirs was removed from the configuration; as last found. */
  unserved(): readonly PlacedVolume[] {
    return this.#unserved;
  }

  foundUnserved(volumes: readonly PlacedVolume[]): void {
    if (isDeepStrictEqual(volumes, this.#unserved)) return;
    this.#unserved = volumes;
    this.#listeners.notify();
  }

  become(set: PoolSet): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#set = set;
    this.#unsubscribe = set.pools.map((pool) => pool.onChange(() => this.#listeners.notify()));
    this.#listeners.notify();
  }

  /**
   * Calls back after each change of a pool, when classes are added or removed, and when volumes without a class are found;
   * returns a function that unsubscribes.
   */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }
}

/** The pool that has the volume. Searches all of them, as ids are unique on a node and the class may have been renamed. */
export function poolHolding(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  return pools.all().find((pool) => pool.get(id) !== undefined);
}

export class DeviceClassNotFound extends MoorageError {
  readonly code = 'NotFound';

  constructor(deviceClass: string, known: readonly string[]) {
    const what =
      deviceClass === '' ? 'this node has no default device class' : `this node has no device class ${deviceClass}`;
    super(`${what}; it has ${known.join(', ')}`);
  }
}

/** It is configured, and is served as soon as its volume group, thin pool or directory exists. */
export class DeviceClassUnavailable extends MoorageError {
  readonly code = 'Unavailable';

  constructor(deviceClass: string, cause: unknown) {
    super(`device class ${deviceClass} cannot be served now: ${messageOf(cause)}`, { cause });
  }
}

/** The engine is healthy, and a restart would not speed this up. */
export class BeingOpened extends MoorageError {
  readonly code = 'Unavailable';

  constructor() {
    super(
      'it is still being opened: LVM checks its thin pool before it activates the volumes; wait, or look for a slow or hung disk',
    );
  }
}
