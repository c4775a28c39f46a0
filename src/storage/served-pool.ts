import type { DeviceClass, OptionClass } from './device-classes.ts';
import type { Pool } from './pool.ts';

/** What the configuration says about one pool. */
export interface PoolSettings {
  readonly deviceClass: DeviceClass;
  readonly optionClasses: readonly OptionClass[];
}

/** A pool as the configuration keeps it: its settings can change while it serves, what it stands on cannot. */
export interface ServedPool extends Pool {
  reconfigure(settings: PoolSettings): void;
  /**
   * Starts nothing more of its own, such as erasures; after the grace period what runs is aborted. Where two pools on the
   * same ground would not know of each other, it returns only when no call is under way any more.
   */
  stop(graceMs: number): Promise<void>;
}

export type OpenPool = (settings: PoolSettings, signal: AbortSignal) => Promise<ServedPool>;
