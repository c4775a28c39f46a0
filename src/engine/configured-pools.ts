import { isDeepStrictEqual } from 'node:util';
import { abortable } from '../base/abortable.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import { type Aside, KeyedQueue, Requeue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import type { DeviceClass, StorageConfig } from './config/device-classes.ts';
import { isGroupClass, withGroupClasses } from './config/group-classes.ts';
import type { OpenPool, PoolSettings, ServedPool } from './pool.ts';
import { BeingOpened, type PoolSet, Pools } from './pools.ts';

export interface ConfiguredPoolsOptions {
  readonly open: OpenPool;
  readonly clock: Clock;
  readonly log: Log;
}

interface Entry {
  /** In the queue; includes the volume group, so that a class that moves does not wait for a hang on the old one. */
  readonly key: string;
  settings: PoolSettings;
  pool?: ServedPool;
  /** Why the class is not served. */
  problem: unknown;
  /** Resolves when the class is served, or the reason why not is known. */
  readonly decided: PromiseWithResolvers<void>;
  /** Resolves when no attempt to open it is running. */
  opening: Promise<void>;
  /** Aborted when the class is removed from the configuration. */
  readonly left: AbortController;
}

/** Finds changes by others that no event reports. */
const refreshEveryMs = 10 * 60_000;
const graceMs = 5_000;
/** How long `apply` waits for a class to open; a slower one is served later. */
const patienceMs = 10_000;
const reportEveryMs = 60_000;

/**
 * Keeps the node's pools in line with the configuration. A class whose volume group or directory is missing is known but
 * unavailable, and is retried with backoff, or at once by `lookAgain`. A class that is removed from the configuration is
 * no longer served; its volumes are not changed. Only classes on the same ground, that is the same volume group or
 * directory, wait for each other to open or stop.
 */
export class ConfiguredPools {
  /** The configured classes. */
  readonly pools = new Pools();
  /** Also the volume groups that are served without one. */
  readonly allPools = new Pools();
  readonly #open: OpenPool;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #applying = new KeyedLock();
  readonly #queue: KeyedQueue;
  readonly #entries = new Map<string, Entry>();
  /** Removed classes that are still stopping, by their ground. */
  readonly #leaving = new Map<string, Promise<void>>();
  #config: Pick<StorageConfig, 'deviceClasses' | 'optionClasses'> = { deviceClasses: [], optionClasses: [] };
  #groups: ReadonlySet<string> = new Set();

  constructor({ open, clock, log }: ConfiguredPoolsOptions) {
    this.#open = open;
    this.#clock = clock;
    this.#log = log;
    this.#queue = new KeyedQueue({
      reconcile: (key, signal, aside) => this.#look(key, signal, aside),
      concurrency: Number.POSITIVE_INFINITY, // classes are few, and one that hangs must not delay others
      clock,
      log,
      random: Math.random,
    });
  }

  /** All classes, also those of volume groups, whether or not they can be served. */
  deviceClasses(): readonly DeviceClass[] {
    return [...this.#entries.values()].map(({ settings }) => settings.deviceClass);
  }

  /** The class that has been hanging for longest: its key and for how long; undefined if there is none. */
  get slowest(): KeyedQueue['slowest'] {
    return this.#queue.slowest;
  }

  /** Returns when every class is served or unavailable. A class that is slow to open counts as unavailable until then. */
  async apply(config: StorageConfig, signal: AbortSignal): Promise<void> {
    this.#config = config;
    await this.#applyLatest(signal);
  }

  /** Like `apply`, for the volume groups to serve with or without a class. Returns whether they changed. */
  async serveGroups(groups: ReadonlySet<string>, signal: AbortSignal): Promise<boolean> {
    const isNew = !isDeepStrictEqual(groups, this.#groups);
    this.#groups = groups;
    if (isNew) await this.#applyLatest(signal);
    else await this.#applying.run('configuration', signal, async () => undefined); // an earlier call may not be done
    return isNew;
  }

  /** One at a time. Each applies what was requested last, so it does not matter which of them runs last. */
  async #applyLatest(signal: AbortSignal): Promise<void> {
    await this.#applying.run('configuration', signal, async () => {
      const { deviceClasses, optionClasses } = this.#config;
      const wanted = new Map(
        withGroupClasses(deviceClasses, this.#groups).map((deviceClass) => [
          deviceClass.name,
          { deviceClass, optionClasses },
        ]),
      );
      const left: Entry[] = [];
      for (const [name, entry] of this.#entries) {
        const settings = wanted.get(name);
        if (settings && sharesStorage(entry.settings.deviceClass, settings.deviceClass)) {
          reconfigure(entry, settings);
        } else {
          this.#entries.delete(name);
          left.push(entry);
        }
      }
      for (const [name, settings] of wanted) if (!this.#entries.has(name)) this.#entries.set(name, newEntry(settings));
      if (left.length > 0) this.#publish(); // no new calls on pools that are about to stop
      for (const entry of left) this.#leave(entry);

      const missing = [...this.#entries.values()].filter(({ pool }) => !pool);
      for (const { key } of missing) this.#queue.add(key);
      await abortable(Promise.all(missing.map(({ decided }) => decided.promise)), signal);
      this.#publish();
    });
  }

  /** To be called when a missing volume group or directory may have appeared. */
  lookAgain(): void {
    for (const { key, pool } of this.#entries.values()) if (!pool) this.#queue.add(key);
  }

  async stop(): Promise<void> {
    await this.#queue.stop(graceMs);
    await Promise.all([...this.#entries.values()].map(async ({ pool }) => pool?.stop(graceMs)));
    await Promise.all(this.#leaving.values());
  }

  async #look(key: string, signal: AbortSignal, aside: Aside): Promise<Requeue> {
    const entry = [...this.#entries.values()].find((entry) => entry.key === key);
    if (!entry) return Requeue.never; // removed from the configuration since it was queued
    if (entry.pool) await entry.pool.refresh(signal);
    else await aside(this.#tryToOpen(entry, signal)); // may take long, and logs its own progress
    return Requeue.after(refreshEveryMs);
  }

  async #tryToOpen(entry: Entry, signal: AbortSignal): Promise<void> {
    const attempt = Promise.withResolvers<void>();
    entry.opening = attempt.promise;
    using _report = this.#reportWhileOpening(entry);
    try {
      await this.#openEntry(entry, AbortSignal.any([signal, entry.left.signal]));
    } catch (error) {
      entry.problem = error;
      if (!entry.left.signal.aborted) throw error;
    } finally {
      attempt.resolve();
      entry.decided.resolve();
      this.#publish();
    }
  }

  async #openEntry(entry: Entry, signal: AbortSignal): Promise<void> {
    const { settings } = entry;
    const { deviceClass } = settings;
    await abortable(this.#leaving.get(groundOf(deviceClass)) ?? Promise.resolve(), signal);
    const pool = await this.#open(settings, signal);
    if (entry.left.signal.aborted) return pool.stop(graceMs);
    if (entry.settings !== settings) pool.reconfigure(entry.settings);
    entry.pool = pool;
    this.#log.info({ deviceClass: deviceClass.name }, `device class ${deviceClass.name} is now served`);
  }

  /** Reports slow opening, as LVM checks a whole thin pool before it activates the volumes. */
  #reportWhileOpening(entry: Entry): Disposable {
    const { name } = entry.settings.deviceClass;
    const startedMs = this.#clock.monotonic();
    let timer: Timer;
    const report = () => {
      entry.problem = new BeingOpened();
      entry.decided.resolve();
      this.#publish();
      const seconds = Math.round((this.#clock.monotonic() - startedMs) / 1000);
      this.#log.warn(
        { deviceClass: name, seconds },
        `device class ${name} is not served yet: ${messageOf(entry.problem)}`,
      );
      timer = this.#clock.setTimer(report, reportEveryMs);
    };
    timer = this.#clock.setTimer(report, patienceMs);
    return { [Symbol.dispose]: () => timer.cancel() };
  }

  /** Stops the class in the background. Only a new class on the same ground waits for that. */
  #leave(entry: Entry): void {
    entry.left.abort();
    const { deviceClass } = entry.settings;
    const ground = groundOf(deviceClass);
    const stop = async () => {
      try {
        await entry.opening;
        await entry.pool?.stop(graceMs);
      } catch (error) {
        this.#log.error({ err: error }, `device class ${deviceClass.name} did not stop cleanly: ${messageOf(error)}`);
      }
    };
    const stopped = Promise.all([this.#leaving.get(ground), stop()]).then(() => {
      if (this.#leaving.get(ground) === stopped) this.#leaving.delete(ground);
    });
    this.#leaving.set(ground, stopped);
  }

  #publish(): void {
    const entries = [...this.#entries.values()];
    this.pools.become(poolSetOf(entries.filter(({ settings }) => !isGroupClass(settings.deviceClass))));
    this.allPools.become(poolSetOf(entries));
  }
}

function poolSetOf(entries: readonly Entry[]): PoolSet {
  const classes = entries.map(({ settings }) => settings.deviceClass);
  return {
    pools: entries.flatMap(({ pool }) => pool ?? []),
    defaultClass: classes.find(({ isDefault }) => isDefault)?.name,
    unavailable: new Map(
      entries.flatMap(({ settings, pool, problem }) => (pool ? [] : [[settings.deviceClass.name, problem]])),
    ),
  };
}

function newEntry(settings: PoolSettings): Entry {
  const { deviceClass } = settings;
  return {
    key: `${deviceClass.name} on ${groundOf(deviceClass)}`,
    settings,
    problem: new BeingOpened(),
    decided: Promise.withResolvers(),
    opening: Promise.resolve(),
    left: new AbortController(),
  };
}

function reconfigure(entry: Entry, settings: PoolSettings): void {
  if (isDeepStrictEqual(entry.settings, settings)) return;
  entry.settings = settings;
  entry.pool?.reconfigure(settings);
}

/** The volume group or directory, which two pools must not change at the same time. */
function groundOf(deviceClass: DeviceClass): string {
  return deviceClass.type === 'file' ? deviceClass.path : deviceClass.volumeGroup;
}

/** Whether volume group, thin pool or directory are the same; all other settings can change while a pool is open. */
function sharesStorage(one: DeviceClass, other: DeviceClass): boolean {
  if (one.type !== other.type || groundOf(one) !== groundOf(other)) return false;
  return one.type !== 'thin' || (other.type === 'thin' && one.thinPool.name === other.thinPool.name);
}
