import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import type { StorageConfig } from './device-classes.ts';
import type { Pool } from './pool.ts';

/** The pools of this node, by device class. */
export class Pools {
  /** Opens and loads every pool; fails if one of them is not there. */
  static async open(
    _config: StorageConfig,
    _collaborators: { readonly run: Run; readonly log: Log },
    _signal: AbortSignal,
  ): Promise<Pools> {
    throw new Error('to come');
  }

  /** The empty name is the default class. */
  get(_deviceClass: string): Pool {
    throw new Error('to come');
  }

  get default(): Pool | undefined {
    throw new Error('to come');
  }

  all(): readonly Pool[] {
    throw new Error('to come');
  }
}
