import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import { Requeue } from '../base/requeue.ts';
import type { DeviceClass, StorageConfig } from './device-classes.ts';
import { Pools } from './pools.ts';
import type { OpenPool, PoolSettings, ServedPool } from './served-pool.ts';

export interface ConfiguredPoolsOptions {
  readonly open: OpenPool;
  readonly clock: Clock;
  readonly log: Log;
}

interface Entry {
  settings: PoolSettings;
  pool?: ServedPool;
  /** Why it could not be opened when that was last tried. */
  problem?: unknown;
}

/** Others may change a pool too; what nothing else tells is seen by then. */
const refreshEveryMs = 10 * 60_000;
const graceMs = 5_000;

/**
 * Keeps the node's pools as the configuration says. A class whose volume group or directory is not there is known but
 * unavailable, and is tried again with growing pauses, or at once by `lookAgain`. A class that leaves the configuration
 * is no longer served; its volumes stay as they are.
 */
export class ConfiguredPools {
  readonly pools = new Pools();
  readonly #open: OpenPool;
  readonly #log: Log;
  readonly #applying = new KeyedLock();
  readonly #queue: KeyedQueue;
  readonly #entries = new Map<string, Entry>();

  constructor({ open, clock, log }: ConfiguredPoolsOptions) {
    this.#open = open;
    this.#log = log;
    this.#queue = new KeyedQueue({
      reconcile: (name, signal) => this.#look(name, signal),
      concurrency: 4,
      clock,
      log,
      random: Math.random,
    });
  }

  /** The classes of the configuration, whether or not they can be served. */
  deviceClasses(): readonly DeviceClass[] {
    return [...this.#entries.values()].map(({ settings }) => settings.deviceClass);
  }

  /** Returns when every class is served or known to be unavailable. */
  async apply(config: StorageConfig, signal: AbortSignal): Promise<void> {
    await this.#applying.run('configuration', signal, async () => {
      const { optionClasses } = config;
      const wanted = new Map(
        config.deviceClasses.map((deviceClass) => [deviceClass.name, { deviceClass, optionClasses }]),
      );
      const left: Entry[] = [];
      for (const [name, entry] of this.#entries) {
        const settings = wanted.get(name);
        if (settings && standsOnTheSame(entry.settings.deviceClass, settings.deviceClass)) {
          reconfigure(entry, settings);
        } else {
          this.#entries.delete(name);
          left.push(entry);
        }
      }
      if (left.length > 0) this.#publish(); // nobody shall begin anything on what is about to stop
      await Promise.all(left.map(async ({ pool }) => pool?.stop(graceMs)));

      for (const [name, settings] of wanted) if (!this.#entries.has(name)) this.#entries.set(name, { settings });
      const missing = [...this.#entries].filter(([, { pool }]) => !pool);
      await Promise.all(missing.map(([name, entry]) => this.#tryToOpen(name, entry, signal)));
      this.#publish();
    });
  }

  /** Something may have appeared that classes wait for. */
  lookAgain(): void {
    for (const [name, { pool }] of this.#entries) if (!pool) this.#queue.add(name);
  }

  async stop(): Promise<void> {
    await this.#queue.stop(graceMs);
    await Promise.all([...this.#entries.values()].map(async ({ pool }) => pool?.stop(graceMs)));
  }

  async #tryToOpen(name: string, entry: Entry, signal: AbortSignal): Promise<void> {
    try {
      await this.#openEntry(name, entry, signal);
      this.#queue.addAfter(name, refreshEveryMs);
    } catch {
      signal.throwIfAborted();
      this.#queue.add(name); // tells why, and tries again
    }
  }

  async #look(name: string, signal: AbortSignal): Promise<Requeue> {
    const entry = this.#entries.get(name);
    if (!entry) return Requeue.never; // left the configuration since it was queued
    if (entry.pool) await entry.pool.refresh(signal);
    else await this.#openEntry(name, entry, signal);
    return Requeue.after(refreshEveryMs);
  }

  async #openEntry(name: string, entry: Entry, signal: AbortSignal): Promise<void> {
    try {
      const { settings } = entry;
      const pool = await this.#open(settings, signal);
      if (this.#entries.get(name) !== entry || entry.pool) return await pool.stop(graceMs); // changed meanwhile
      if (entry.settings !== settings) pool.reconfigure(entry.settings);
      entry.pool = pool;
      delete entry.problem;
      this.#log.info({ deviceClass: name }, `device class ${name} is served`);
    } catch (error) {
      entry.problem = error;
      throw error;
    } finally {
      this.#publish();
    }
  }

  #publish(): void {
    const entries = [...this.#entries];
    this.pools.become({
      pools: entries.flatMap(([, { pool }]) => pool ?? []),
      defaultClass: entries.find(([, { settings }]) => settings.deviceClass.isDefault)?.[0],
      unavailable: new Map(entries.flatMap(([name, { pool, problem }]) => (pool ? [] : [[name, problem]]))),
    });
  }
}

function reconfigure(entry: Entry, settings: PoolSettings): void {
  if (isDeepStrictEqual(entry.settings, settings)) return;
  entry.settings = settings;
  entry.pool?.reconfigure(settings);
}

/** The same volume group, thin pool or directory: everything else can change under a pool that is open. */
function standsOnTheSame(one: DeviceClass, other: DeviceClass): boolean {
  if (one.type !== other.type) return false;
  if (one.type === 'file') return other.type === 'file' && one.path === other.path;
  if (other.type === 'file' || one.volumeGroup !== other.volumeGroup) return false;
  return one.type === 'thick' || (other.type === 'thin' && one.thinPool.name === other.thinPool.name);
}
