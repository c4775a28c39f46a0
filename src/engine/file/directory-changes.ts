import { KeyedLock } from '../../base/keyed-lock.ts';
import { Listeners } from '../../base/listeners.ts';
import { PoolStopped } from '../errors.ts';
import type { AttachedVolumes } from './attached-volumes.ts';
import type { DirectorySpace } from './directory-space.ts';
import type { PoolMarker } from './pool-marker.ts';

export interface DirectoryChangesOptions {
  /** The device class that the directory serves. */
  readonly deviceClass: string;
  readonly marker: PoolMarker;
  readonly volumes: AttachedVolumes;
  readonly space: DirectorySpace;
}

/** For work that goes on after the caller has left. */
export const neverAborted = new AbortController().signal;

/** Runs one change of a pool's directory at a time, and only while the directory is there. */
export class DirectoryChanges {
  readonly #options: DirectoryChangesOptions;
  readonly #lock = new KeyedLock();
  readonly #listeners = new Listeners();
  #isStopped = false;
  #isChanging = false;

  constructor(options: DirectoryChangesOptions) {
    this.#options = options;
  }

  get isChanging(): boolean {
    return this.#isChanging;
  }

  /** Calls back after each change. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  notify(): void {
    this.#listeners.notify();
  }

  async run<T>(signal: AbortSignal, change: () => Promise<T>): Promise<T> {
    return this.alone(signal, async () => {
      this.#isChanging = true;
      try {
        return await change();
      } finally {
        this.#isChanging = false;
      }
    });
  }

  /**
   * Like `run`, for work that does not count as a change. The space is measured after each, as only the filesystem knows
   * how much a file takes.
   */
  async alone<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const { deviceClass, marker, volumes, space } = this.#options;
    return this.#lock.run('directory', signal, async () => {
      if (this.#isStopped) throw new PoolStopped(deviceClass);
      try {
        await marker.mustBeThere();
        return await work();
      } finally {
        if (marker.problem === undefined) await space.measure(volumes.list());
        this.notify();
      }
    });
  }

  /** Returns when nothing runs and nothing more will: the directory may have another pool then. */
  async stop(): Promise<void> {
    await this.#lock.run('directory', neverAborted, async () => {
      this.#isStopped = true;
    });
  }
}
